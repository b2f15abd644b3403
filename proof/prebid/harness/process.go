package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startMax is how long a program may take until it serves.
const startMax = 90 * time.Second

// A process that the harness started and ends.
type process struct {
	name  string
	cmd   *exec.Cmd
	lines chan string // what it prints on its standard output; closed at its end
}

// start runs a program. Its standard error goes to NAME.log in the folder of the run.
func start(name, folder, directory string, environment []string, program string, arguments ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(folder, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, arguments...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stderr = log
	// If the harness dies, so do its children.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, lines: make(chan string, 1024)}
	go p.read(output)
	return p, nil
}

func (p *process) read(output io.Reader) {
	defer close(p.lines)
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		select {
		case p.lines <- scanner.Text():
		default: // nobody waits for lines any more
		}
	}
}

// until returns the second word of each line by its first one, when the line `ready` has come.
func (p *process) until(ready string) (map[string]string, error) {
	said := map[string]string{}
	timeout := time.After(startMax)
	for {
		select {
		case line, alive := <-p.lines:
			if !alive {
				return nil, fmt.Errorf("%s ended before it was ready; see %s.log in the run's folder", p.name, p.name)
			}
			word, rest, _ := strings.Cut(line, " ")
			if word == ready {
				return said, nil
			}
			said[word] = strings.TrimSpace(rest)
		case <-timeout:
			return nil, fmt.Errorf("%s was not ready in %v; see %s.log in the run's folder", p.name, startMax, p.name)
		}
	}
}

// stop asks it to end, and insists after a while.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	insist := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer insist.Stop()
	_ = p.cmd.Wait()
}

// freePort finds a port for a program that cannot say which one it took.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
