-- NAME ID NO_ID: 1, or 0 where another has the name and lives. The entry stays, without topics but the version.
local name, id, no_id = unpack(ARGV)
local holds, lives = holder(name)
if holds == id then
  void(name, no_id)
  redis.call('HSET', topics, name, '\0' .. stored_version(redis.call('HGET', topics, name) or ''))
  redis.call('ZADD', leases, plain(now_ms), name)
  changed()
elseif lives then
  return 0
end
return 1
