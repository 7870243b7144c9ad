// The peer for github.com/go-zeromq/zmq4. Implements the line protocol of ../../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/plain"
)

const (
	lineBytes = 64 << 20
	patience  = 10 * time.Second
	retry     = 2 * time.Millisecond
)

var errLate = errors.New("late")

var kinds = map[string]func(context.Context, ...zmq4.Option) zmq4.Socket{
	"PAIR": zmq4.NewPair, "PUB": zmq4.NewPub, "SUB": zmq4.NewSub, "REQ": zmq4.NewReq, "REP": zmq4.NewRep,
	"DEALER": zmq4.NewDealer, "ROUTER": zmq4.NewRouter, "PULL": zmq4.NewPull, "PUSH": zmq4.NewPush,
	"XPUB": zmq4.NewXPub, "XSUB": zmq4.NewXSub,
}

type received struct {
	msg zmq4.Msg
	err error
}

// peer is the one open socket. Recv has no deadline, so it runs in a goroutine; if a `recv` times out, the next `recv`
// waits for the same call.
type peer struct {
	socket  zmq4.Socket
	pending chan received
}

func (p *peer) open(words []string) error {
	named := map[string]string{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		named[key] = value
	}
	options := []zmq4.Option{zmq4.WithTimeout(patience)}
	if id, err := hex.DecodeString(named["id"]); err == nil && len(id) > 0 {
		options = append(options, zmq4.WithID(zmq4.SocketIdentity(id)))
	}
	switch named["mechanism"] {
	case "NULL":
	case "PLAIN":
		options = append(options, zmq4.WithSecurity(plain.Security(named["user"], named["password"])))
	default:
		return fmt.Errorf("no mechanism %s", named["mechanism"])
	}
	create, ok := kinds[words[0]]
	if !ok {
		return fmt.Errorf("no socket type %s", words[0])
	}
	p.socket, p.pending = create(context.Background(), options...), nil
	return nil
}

func (p *peer) bind(endpoint string) (string, error) {
	if err := p.socket.Listen(endpoint); err != nil {
		return "", err
	}
	if strings.HasPrefix(endpoint, "tcp://") {
		return "tcp://" + p.socket.Addr().String(), nil
	}
	return endpoint, nil
}

// send retries while a REQ has no connection yet: the library offers neither a wait nor an event for it.
func (p *peer) send(frames []string) error {
	var msg zmq4.Msg
	for _, frame := range frames {
		body, err := hex.DecodeString(strings.Trim(frame, "-"))
		if err != nil {
			return err
		}
		msg.Frames = append(msg.Frames, body)
	}
	again := time.NewTicker(retry)
	defer again.Stop()
	for end := time.Now().Add(patience); ; <-again.C {
		err := p.socket.SendMulti(msg)
		if err == nil || !strings.Contains(err.Error(), "no connections available") || time.Now().After(end) {
			return err
		}
	}
}

func (p *peer) recv(text string) (string, error) {
	milliseconds, err := strconv.Atoi(text)
	if err != nil {
		return "", err
	}
	if p.pending == nil {
		pending, socket := make(chan received, 1), p.socket
		p.pending = pending
		go func() {
			msg, err := socket.Recv()
			pending <- received{msg, err}
		}()
	}
	select {
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return "", errLate
	case got := <-p.pending:
		p.pending = nil
		words := []string{}
		for _, frame := range got.msg.Frames {
			if len(frame) == 0 {
				words = append(words, "-")
			} else {
				words = append(words, hex.EncodeToString(frame))
			}
		}
		return strings.Join(words, " "), got.err
	}
}

func (p *peer) topic(option, text string) error {
	topic, err := hex.DecodeString(text)
	if err != nil {
		return err
	}
	return p.socket.SetOption(option, string(topic))
}

func (p *peer) obey(command string, words []string) (string, error) {
	switch command {
	case "open":
		return "", p.open(words)
	case "bind":
		return p.bind(words[0])
	case "connect":
		return "", p.socket.Dial(words[0])
	case "subscribe":
		return "", p.topic(zmq4.OptionSubscribe, words[0])
	case "unsubscribe":
		return "", p.topic(zmq4.OptionUnsubscribe, words[0])
	case "send":
		return "", p.send(words)
	case "recv":
		return p.recv(words[0])
	case "close":
		// The library may close a connection twice, and then reports an error.
		if err := p.socket.Close(); err != nil && !strings.Contains(err.Error(), net.ErrClosed.Error()) {
			return "", err
		}
		return "", nil
	}
	return "", fmt.Errorf("no such command: %s", command)
}

func main() {
	lines, p := bufio.NewScanner(os.Stdin), &peer{}
	lines.Buffer(nil, lineBytes)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		answer, err := p.obey(words[0], words[1:])
		switch {
		case errors.Is(err, errLate):
			fmt.Println("late")
		case err != nil:
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		default:
			fmt.Println("ok", answer)
		}
	}
}
