package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// holdTime is how long a bid waits for its billing notice before its money goes back.
const holdTime = 2 * time.Second

// hold is money reserved for a bid. It stands in the notice URLs.
type hold struct {
	Bid      string
	Campaign uint64
	Cost     int64
	User     string
}

// ask is one imp: whom to ask for money, in this order.
type ask struct {
	bid        string
	user       string
	candidates []option
}

// store keeps budgets and counts of impressions.
type store interface {
	// reserve takes the money of the first candidate of each ask that has it and is not capped; -1: nobody.
	reserve(ctx context.Context, asks []ask) ([]int, error)
	// settle books a hold, once, and counts the impression.
	settle(ctx context.Context, h hold, counters []counter) error
	// release gives a hold's money back.
	release(ctx context.Context, h hold) error
}

// redisStore is the usual one. Keys: budget:ID is what is left, holds is a sorted set of what is reserved by the time
// it lapses, cap:WINDOW:ID:USER and cap:WINDOW:ID/CREATIVE:USER count impressions, billed:BID remembers billed bids.
type redisStore struct {
	client *redis.Client
}

var reserveScript = redis.NewScript(`
local bid, user, deadline = ARGV[1], ARGV[2], ARGV[3]
local at, candidates = 5, tonumber(ARGV[4])
for i = 1, candidates do
  local id, cost, caps = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  at = at + 3
  local capped = false
  for _ = 1, caps do
    local count = redis.call('GET', ARGV[at] .. user)
    if count and tonumber(count) >= tonumber(ARGV[at + 1]) then capped = true end
    at = at + 2
  end
  if not capped then
    if redis.call('DECRBY', 'budget:' .. id, cost) >= 0 then
      redis.call('ZADD', 'holds', deadline, bid .. ' ' .. id .. ' ' .. cost)
      return i - 1
    end
    redis.call('INCRBY', 'budget:' .. id, cost)
  end
end
return -1`)

var settleScript = redis.NewScript(`
local bid, id, cost, user = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if not redis.call('SET', 'billed:' .. bid, 1, 'NX', 'EX', 3600) then return 0 end
if redis.call('ZREM', 'holds', bid .. ' ' .. id .. ' ' .. cost) == 0 then
  redis.call('DECRBY', 'budget:' .. id, cost)
end
for i = 5, #ARGV, 2 do
  local key = ARGV[i] .. user
  if redis.call('INCR', key) == 1 and ARGV[i + 1] ~= '0' then redis.call('EXPIRE', key, ARGV[i + 1]) end
end
return 1`)

var releaseScript = redis.NewScript(`
if redis.call('ZREM', 'holds', ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3]) == 1 then
  redis.call('INCRBY', 'budget:' .. ARGV[2], ARGV[3])
end`)

var sweepScript = redis.NewScript(`
local gone = redis.call('ZRANGEBYSCORE', 'holds', '-inf', ARGV[1], 'LIMIT', 0, 1000)
for _, member in ipairs(gone) do
  local id, cost = member:match('^%S+ (%S+) (%S+)$')
  redis.call('INCRBY', 'budget:' .. id, cost)
  redis.call('ZREM', 'holds', member)
end
return #gone`)

// newRedisStore connects, sets the budgets that are not there yet, and loads the scripts.
func newRedisStore(ctx context.Context, address string, campaigns []*campaign) (*redisStore, error) {
	s := &redisStore{client: redis.NewClient(&redis.Options{Addr: address, PoolSize: 64, MinIdleConns: 8})}
	pipe := s.client.Pipeline()
	for _, script := range []*redis.Script{reserveScript, settleScript, releaseScript, sweepScript} {
		script.Load(ctx, pipe)
	}
	for _, c := range campaigns {
		pipe.SetNX(ctx, fmt.Sprintf("budget:%d", c.ID), int64(c.Limit), 0)
	}
	_, err := pipe.Exec(ctx)
	return s, err
}

// reserve asks for all imps in one round trip.
func (s *redisStore) reserve(ctx context.Context, asks []ask) ([]int, error) {
	deadline := time.Now().Add(holdTime).UnixMilli()
	pipe := s.client.Pipeline()
	answers := make([]*redis.Cmd, len(asks))
	for i, a := range asks {
		arguments := []any{a.bid, a.user, deadline, len(a.candidates)}
		for _, c := range a.candidates {
			arguments = append(arguments, c.campaign.ID, c.Bid.cost(), len(c.counters))
			for _, counter := range c.counters {
				arguments = append(arguments, counter.name, counter.max)
			}
		}
		answers[i] = reserveScript.EvalSha(ctx, pipe, nil, arguments...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	paid := make([]int, len(asks))
	for i, answer := range answers {
		number, err := answer.Int()
		if err != nil {
			return nil, err
		}
		paid[i] = number
	}
	return paid, nil
}

func (s *redisStore) settle(ctx context.Context, h hold, counters []counter) error {
	arguments := []any{h.Bid, h.Campaign, h.Cost, h.User}
	for _, counter := range counters {
		arguments = append(arguments, counter.name, counter.seconds)
	}
	return settleScript.Run(ctx, s.client, nil, arguments...).Err()
}

func (s *redisStore) release(ctx context.Context, h hold) error {
	err := releaseScript.Run(ctx, s.client, nil, h.Bid, h.Campaign, h.Cost).Err()
	if err == redis.Nil {
		return nil
	}
	return err
}

// sweep gives back what lapsed, until the context ends.
func (s *redisStore) sweep(ctx context.Context) error {
	for ctx.Err() == nil {
		gone, err := sweepScript.Run(ctx, s.client, nil, time.Now().UnixMilli()).Int()
		if err != nil {
			return err
		}
		if gone == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return nil
}
