-- TOPIC: how many of the dead listened on it, and are gone now.
local listened, cleared = '\0' .. ARGV[1] .. '\0', 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', plain(now_ms))) do
  local all = redis.call('HGET', topics, name)
  if all and all:find(listened, 1, true) then
    remove(name)
    cleared = cleared + 1
  end
end
if cleared > 0 then
  changed()
end
return cleared
