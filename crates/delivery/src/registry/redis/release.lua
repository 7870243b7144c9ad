-- NAME ID NO_ID KEEPS_TOPICS: 1, or 0 where another has the name and lives. The entry stays, with its topics if
-- KEEPS_TOPICS is 1, and otherwise with the reserved ones alone.
local name, id, no_id, keeps_topics = unpack(ARGV)
local holds, lives = holder(name)
if holds == id then
  void(name, no_id)
  if keeps_topics ~= '1' then
    redis.call('HSET', topics, name, '\0' .. reserved(redis.call('HGET', topics, name) or ''))
  end
  redis.call('ZADD', leases, plain(now_ms), name)
  changed()
elseif lives then
  return 0
end
return 1
