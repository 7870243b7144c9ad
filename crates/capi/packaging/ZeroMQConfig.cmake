# find_package(ZeroMQ): the target libzmq, and ZeroMQ_INCLUDE_DIR, ZeroMQ_LIBRARY and ZeroMQ_LIBRARIES for older
# projects. There is no libzmq-static.

get_filename_component(_pinnace_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(ZeroMQ_INCLUDE_DIR "${_pinnace_prefix}/include")
set(ZeroMQ_LIBRARY libzmq)
set(ZeroMQ_LIBRARIES libzmq)
set(ZeroMQ_STATIC_LIBRARY "")

if(NOT TARGET libzmq)
  add_library(libzmq SHARED IMPORTED)
  set_target_properties(libzmq PROPERTIES
    IMPORTED_LOCATION "${_pinnace_prefix}/lib/libzmq.so.5"
    IMPORTED_SONAME "libzmq.so.5"
    INTERFACE_INCLUDE_DIRECTORIES "${ZeroMQ_INCLUDE_DIR}")
endif()

unset(_pinnace_prefix)
set(ZeroMQ_FOUND TRUE)
