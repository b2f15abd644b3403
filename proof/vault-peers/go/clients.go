package main

import (
	"encoding/json"
	"errors"
	"time"

	vault "github.com/hashicorp/vault/api"
	bao "github.com/openbao/openbao/api/v2"
)

// values are members of an object.
type values = map[string]any

// answer is what a client made of one call.
type answer struct {
	// status is what the client tells of it: 200 with data, 204 or 404 without, or that of the error.
	status   int
	data     values
	warnings []string
	errors   []string
}

// client is what both modules offer. They have no type in common, so each is made to fit below.
type client struct {
	name string
	// logical carries out read, write, list or delete.
	logical func(verb, path string, body values) (answer, error)
	// system asks what tools ask at their start.
	system func() (system, error)
	// unseal gives a key, and tells whether the server is sealed then.
	unseal func(key string) (bool, error)
}

// system is what a client reads of a server before it does anything.
type system struct {
	Initialized, Sealed, StatusSealed, Leader bool
	Version                                   string
	Mount                                     string
	Token                                     string
	Capabilities                              []string
}

// place is where a server is, and how often and how soon a client asks again.
type place struct {
	url, token string
	retries    int
	wait       time.Duration
}

func (at place) openBao() (client, error) {
	config := bao.DefaultConfig()
	config.Address, config.MaxRetries, config.MinRetryWait, config.MaxRetryWait = at.url, at.retries, at.wait, 2*at.wait
	api, err := bao.NewClient(config)
	if err != nil {
		return client{}, err
	}
	api.SetToken(at.token)
	logical := func(verb, path string, body values) (answer, error) {
		secret, err := map[string]func() (*bao.Secret, error){
			"read":   func() (*bao.Secret, error) { return api.Logical().Read(path) },
			"write":  func() (*bao.Secret, error) { return api.Logical().Write(path, body) },
			"list":   func() (*bao.Secret, error) { return api.Logical().List(path) },
			"delete": func() (*bao.Secret, error) { return api.Logical().Delete(path) },
		}[verb]()
		var refused *bao.ResponseError
		if errors.As(err, &refused) {
			return answer{status: refused.StatusCode, errors: refused.Errors}, nil
		}
		if err != nil || secret == nil {
			return answer{status: without(verb)}, err
		}
		return answer{status: 200, data: secret.Data, warnings: secret.Warnings}, nil
	}
	return client{"openbao/api", logical, func() (system, error) {
		sys := api.Sys()
		health, err1 := sys.Health()
		status, err2 := sys.SealStatus()
		initialized, err3 := sys.InitStatus()
		leader, err4 := sys.Leader()
		mounts, err5 := sys.ListMounts()
		token, err6 := api.Auth().Token().LookupSelf()
		able, err7 := sys.CapabilitiesSelf("transit/encrypt/a")
		if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
			return system{}, err
		}
		id, err := token.TokenID()
		mount := ""
		if found := mounts["transit/"]; found != nil {
			mount = found.Type
		}
		return system{initialized, health.Sealed, status.Sealed, leader.HAEnabled, health.Version, mount, id, able}, err
	}, func(key string) (bool, error) {
		status, err := api.Sys().Unseal(key)
		return err != nil || status.Sealed, err
	}}, nil
}

func (at place) vault() (client, error) {
	config := vault.DefaultConfig()
	config.Address, config.MaxRetries, config.MinRetryWait, config.MaxRetryWait = at.url, at.retries, at.wait, 2*at.wait
	api, err := vault.NewClient(config)
	if err != nil {
		return client{}, err
	}
	api.SetToken(at.token)
	logical := func(verb, path string, body values) (answer, error) {
		secret, err := map[string]func() (*vault.Secret, error){
			"read":   func() (*vault.Secret, error) { return api.Logical().Read(path) },
			"write":  func() (*vault.Secret, error) { return api.Logical().Write(path, body) },
			"list":   func() (*vault.Secret, error) { return api.Logical().List(path) },
			"delete": func() (*vault.Secret, error) { return api.Logical().Delete(path) },
		}[verb]()
		var refused *vault.ResponseError
		if errors.As(err, &refused) {
			return answer{status: refused.StatusCode, errors: refused.Errors}, nil
		}
		if err != nil || secret == nil {
			return answer{status: without(verb)}, err
		}
		return answer{status: 200, data: secret.Data, warnings: secret.Warnings}, nil
	}
	return client{"vault/api", logical, func() (system, error) {
		sys := api.Sys()
		health, err1 := sys.Health()
		status, err2 := sys.SealStatus()
		initialized, err3 := sys.InitStatus()
		leader, err4 := sys.Leader()
		mounts, err5 := sys.ListMounts()
		token, err6 := api.Auth().Token().LookupSelf()
		able, err7 := sys.CapabilitiesSelf("transit/encrypt/a")
		if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
			return system{}, err
		}
		id, err := token.TokenID()
		mount := ""
		if found := mounts["transit/"]; found != nil {
			mount = found.Type
		}
		return system{initialized, health.Sealed, status.Sealed, leader.HAEnabled, health.Version, mount, id, able}, err
	}, func(key string) (bool, error) {
		status, err := api.Sys().Unseal(key)
		return err != nil || status.Sealed, err
	}}, nil
}

// without is the status that both modules do not tell: they answer with nothing at all.
func without(verb string) int {
	if verb == "read" || verb == "list" {
		return 404
	}
	return 204
}

// plain reads what a client made of JSON once more, so that numbers are numbers in all of them.
func plain(data values) values {
	text, err := json.Marshal(data)
	if err != nil {
		return values{"cannot be written": err.Error()}
	}
	var read values
	if err := json.Unmarshal(text, &read); err != nil {
		return values{"cannot be read": err.Error()}
	}
	return read
}
