// The admin API as another client sees it: what a page says is compared with what this says.
export class Api {
  constructor(node, token = null) {
    this.node = node;
    this.headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  }

  async call(path, { method = "GET", body, headers = {} } = {}) {
    const all = {
      ...this.headers,
      ...headers,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    };
    const answer = await fetch(`${this.node.url}/v1${path}`, {
      method,
      headers: all,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} /v1${path}: ${answer.status} ${await answer.text()}`);
    return { value: await answer.json(), etag: answer.headers.get("etag") };
  }

  async get(path) {
    return (await this.call(path)).value;
  }

  budget(id) {
    return this.get(`/budgets/${id}`);
  }

  /** All budgets of a query, page by page. */
  async budgets(query) {
    const found = [];
    for (let next = ""; next !== null;) {
      const page = await this.get(
        `/budgets?max=1000&${query}${next === "" ? "" : `&cursor=${encodeURIComponent(next)}`}`,
      );
      found.push(...page.budgets);
      next = page.next;
    }
    return found;
  }

  async patch(id, changes, why) {
    const { etag } = await this.call(`/budgets/${id}`);
    return (
      await this.call(`/budgets/${id}`, {
        method: "PATCH",
        body: { changes, why },
        headers: { "If-Match": etag },
      })
    ).value;
  }

  async audit(query = "") {
    return (await this.get(`/audit?${query}`)).records;
  }
}
