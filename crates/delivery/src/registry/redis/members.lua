-- VERSION OVER: what is there, or nothing where these are what they were.
local number = redis.call('GET', version) or ''
local over = redis.call('ZCOUNT', leases, '-inf', plain(now_ms))
if number == ARGV[1] and over == tonumber(ARGV[2]) then
  return false
end
return {
  number, over,
  redis.call('ZRANGEBYSCORE', leases, '(' .. plain(now_ms), '+inf'),
  redis.call('HGETALL', clients),
  redis.call('HGETALL', topics),
}
