-- NAME ID NO_ID: 1, or 0 where another has the name and lives. The entry stays, without topics.
local name, id, no_id = unpack(ARGV)
local holds, lives = holder(name)
if holds == id then
  void(name, no_id)
  redis.call('HSET', topics, name, '\0')
  redis.call('ZADD', leases, plain(now_ms), name)
  changed()
elseif lives then
  return 0
end
return 1
