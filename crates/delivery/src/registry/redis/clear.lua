-- TOPIC NO_ID: how many of the dead listened on it, and do so no longer.
local listened, cleared = '\0' .. ARGV[1] .. '\0', 0
for _, name in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', plain(now_ms))) do
  local all = redis.call('HGET', topics, name)
  local from, to = (all or ''):find(listened, 1, true)
  if from then
    -- The NUL before the topic is the one after the topic before it.
    redis.call('HSET', topics, name, all:sub(1, from) .. all:sub(to + 1))
    void(name, ARGV[2])
    cleared = cleared + 1
  end
end
if cleared > 0 then
  changed()
end
return cleared
