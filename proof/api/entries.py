"""A batch is answered 200 whatever its entries are: each of them is held to the document in its own place, as if its call were alone."""

import json

import jsonschema_rs
import schemathesis

# Values that a schema allows may still be refused.
ALLOWED = {200, 400, 402, 403, 404, 409, 410, 429}


@schemathesis.check
class EntriesOfABatch:
    """A bad entry is refused 400, a good one with a status of its call; bodies are those that the calls would have alone."""

    def __init__(self):
        self.validators = {}
        # How many batches, and which kinds of entries they had.
        self.batches = False
        self.seen = set()

    def fits(self, document, pointer, value):
        validator = self.validators.get(pointer)
        if validator is None:
            schema = {"$ref": f"#{pointer}", **document}
            validator = self.validators[pointer] = jsonschema_rs.Draft202012Validator(schema)
        return validator.is_valid(value)

    def entry(self, document, entry, answer):
        status, body = answer["status"], answer["body"]
        is_good = self.fits(document, "/components/schemas/Call", entry)
        assert is_good or status == 400, f"a bad entry has {status}: {entry}"
        if status != 200:
            assert self.fits(document, "/components/schemas/Problem", body), f"no problem: {body}"
            assert body["status"] == status, f"{status} is told as {body['status']}"
        if is_good:
            path = f"/paths/~1v1~1{entry['call']}/post/responses"
            documented = document["paths"][f"/v1/{entry['call']}"]["post"]["responses"]
            assert status in ALLOWED and str(status) in documented, f"{status} for {entry}"
            schema = f"{path}/200/content/application~1json/schema"
            assert status != 200 or self.fits(document, schema, body), f"{entry} is answered {body}"
        self.seen.add((is_good, status == 200))

    def after_response(self, ctx, response, case):
        if case.operation.label != "POST /v1/batch":
            return
        self.batches = True
        if response.status_code != 200:
            return
        entries = json.loads(response.request.body)
        answers = json.loads(response.content)
        assert isinstance(entries, list) and len(entries) == len(answers), "an answer to each entry"
        for entry, answer in zip(entries, answers):
            self.entry(case.operation.schema.raw_schema, entry, answer)

    def after_run(self, ctx):
        kinds = {is_good for is_good, _ in self.seen}
        assert not self.batches or kinds == {True, False}, f"batches had good and bad entries: {self.seen}"
