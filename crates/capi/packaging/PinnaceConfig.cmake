# find_package(Pinnace): the target Pinnace::pinnace, the library under its own name with pinnace.h.

get_filename_component(_pinnace_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET Pinnace::pinnace)
  add_library(Pinnace::pinnace SHARED IMPORTED)
  set_target_properties(Pinnace::pinnace PROPERTIES
    IMPORTED_LOCATION "${_pinnace_prefix}/lib/libpinnace.so"
    IMPORTED_SONAME "libzmq.so.5"
    INTERFACE_INCLUDE_DIRECTORIES "${_pinnace_prefix}/include")
endif()

unset(_pinnace_prefix)
set(Pinnace_FOUND TRUE)
