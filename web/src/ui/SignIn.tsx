import { useState } from "react";
import { setToken, token } from "../api/client";
import { Logo } from "./parts";

/** Asks for a token; it stays in this tab only. */
export function SignIn() {
  const [text, setText] = useState("");
  const enter = () => {
    setToken(text.trim());
    location.reload();
  };
  return (
    <main className="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          enter();
        }}
      >
        <h1 className="brand">
          <Logo />
          Weir
        </h1>
        <p>
          {token() === null
            ? "This node wants a token. It stays in this tab only."
            : "The node does not know that token, or knows it no longer."}
        </p>
        <label className="field">
          Token
          <input
            type="password"
            autoComplete="off"
            autoFocus
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        <button type="submit" className="button button-main" disabled={text.trim() === ""}>
          Sign in
        </button>
      </form>
    </main>
  );
}
