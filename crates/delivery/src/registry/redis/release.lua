-- NAME ID: 1, or 0 where another has the name and lives.
local name, id = unpack(ARGV)
local holds, lives = holder(name)
if holds == id then
  remove(name)
  changed()
elseif lives then
  return 0
end
return 1
