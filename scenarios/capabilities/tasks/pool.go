// Adds one to the number in `n` from four goroutines, under a lock each takes for itself.
package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

func addOne() {
	lock, err := os.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		panic(err)
	}
	text, err := os.ReadFile("n")
	if err != nil {
		panic(err)
	}
	var number int
	fmt.Sscan(strings.TrimSpace(string(text)), &number)
	if err := os.WriteFile("n", []byte(fmt.Sprintf("%d\n", number+1)), 0o644); err != nil {
		panic(err)
	}
}

func main() {
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			addOne()
		}()
	}
	all.Wait()
}
