//go:build unix

package weir

import (
	"os"
	"syscall"
)

// lock keeps other clients off the spool while the file is open.
func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
