-- HISTORY VERSION OVER: what is there, or nothing where these are what they were.
local first = redis.call('GET', history) or ''
local number = redis.call('GET', version) or ''
local over = redis.call('ZCOUNT', leases, '-inf', plain(now_ms))
if first == ARGV[1] and number == ARGV[2] and over == tonumber(ARGV[3]) then
  return false
end
return {
  first, number, over,
  redis.call('ZRANGEBYSCORE', leases, '(' .. plain(now_ms), '+inf'),
  redis.call('HGETALL', clients),
  redis.call('HGETALL', topics),
}
