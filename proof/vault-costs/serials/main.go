// A million serials of 32 bytes, encrypted and decrypted one by one with AES-256-CBC, as programs do it that have no service for it: a key
// schedule, an IV and a hexadecimal text each, nothing authenticated. Prints the processor's milliseconds each way, the least of three rounds.
//
// go run ./proof/vault-costs/serials [serials]
package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

const rounds = 3

func encrypt(key []byte, serial string) (string, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	count := aes.BlockSize - len(serial)%aes.BlockSize
	padded := append([]byte(serial), bytes.Repeat([]byte{byte(count)}, count)...)
	sealed := make([]byte, aes.BlockSize+len(padded))
	if _, err := rand.Read(sealed[:aes.BlockSize]); err != nil {
		return "", err
	}
	cipher.NewCBCEncrypter(block, sealed[:aes.BlockSize]).CryptBlocks(sealed[aes.BlockSize:], padded)
	return hex.EncodeToString(sealed), nil
}

func decrypt(key []byte, text string) (string, error) {
	sealed, err := hex.DecodeString(text)
	if err != nil {
		return "", err
	}
	if len(sealed) < 2*aes.BlockSize || len(sealed)%aes.BlockSize != 0 {
		return "", fmt.Errorf("a message of %d bytes", len(sealed))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	plain := make([]byte, len(sealed)-aes.BlockSize)
	cipher.NewCBCDecrypter(block, sealed[:aes.BlockSize]).CryptBlocks(plain, sealed[aes.BlockSize:])
	return string(plain[:len(plain)-int(plain[len(plain)-1])]), nil
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fail(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "serials:", err)
	os.Exit(1)
}

func main() {
	count := 1_000_000
	if len(os.Args) > 1 {
		var err error
		if count, err = strconv.Atoi(os.Args[1]); err != nil {
			fail(err)
		}
	}
	key := make([]byte, 32)
	serials, sealed := make([]string, count), make([]string, count)
	for i := range serials {
		serials[i] = fmt.Sprintf("%032d", i)
	}
	there, back := time.Hour, time.Hour
	for range rounds {
		began := cpu()
		for i, serial := range serials {
			var err error
			if sealed[i], err = encrypt(key, serial); err != nil {
				fail(err)
			}
		}
		half := cpu()
		for i, text := range sealed {
			serial, err := decrypt(key, text)
			if err != nil {
				fail(err)
			}
			if serial != serials[i] {
				fail(fmt.Errorf("serial %d came back as %q", i, serial))
			}
		}
		there, back = min(there, half-began), min(back, cpu()-half)
	}
	fmt.Printf("| Go, AES-256-CBC, one by one | %d | %d |\n", there.Milliseconds(), back.Milliseconds())
}
