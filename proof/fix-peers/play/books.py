"""What was sent and what arrived, compared for both directions of one version."""

import messages
from processes import Failed
from messages import body, is_repeat, number, shown, value


class Books:
    """What the two peers of one version have kept and got since the books were opened."""

    def __init__(self, version, client, venue):
        self.version, self.client, self.venue = version, client, venue
        self.start = {peer: {event: len(peer.said[event]) for event in ("kept", "got")} for peer in (client, venue)}

    def of(self, peer, event):
        entries = list(peer.said[event])[self.start[peer][event] :]
        found = [message for session, message in entries if session == self.version]
        # The engines count a Reject of the session among their own business.
        return [message for message in found if not messages.is_admin(message)]

    def orders(self):
        return [one for one in self.of(self.client, "kept") if not is_repeat(one)]

    def reports(self):
        return [one for one in self.of(self.venue, "kept") if value(one, 35) == b"8" and not is_repeat(one)]

    def at_venue(self):
        return self.of(self.venue, "got")

    def at_client(self):
        return [one for one in self.of(self.client, "got") if value(one, 35) == b"8"]

    def refusals(self):
        """The gate's answers to orders while the venue is away."""
        return [one for one in self.of(self.client, "got") if value(one, 35) == b"j"]

    def missing(self):
        """Orders without a fate, and reports that have not arrived."""
        arrived = {value(one, 11) for one in self.at_venue()}
        refused = {number(one, 45) for one in self.refusals()}
        lost = [one for one in self.orders() if value(one, 11) not in arrived and number(one, 34) not in refused]
        known = {value(one, 17) for one in self.at_client()}
        return lost + [one for one in self.reports() if value(one, 17) not in known]

    def judge(self):
        """Nothing lost, nothing twice that does not say so, every byte of every body as it was, all in order."""
        if lost := self.missing():
            raise Failed(f"{self.version}: lost {[shown(one) for one in lost[:3]]}")
        for one in self.refusals():
            if value(one, 58) != b"Application not available":
                raise Failed(f"{self.version}: refused {shown(one)}")
        self._refused_or_passed()
        self._same("order", self.orders(), self.at_venue(), 11)
        self._same("report", self.reports(), self.at_client(), 17)

    def _refused_or_passed(self):
        arrived = {value(one, 11) for one in self.at_venue()}
        refused = [number(one, 45) for one in self.refusals() if not is_repeat(one)]
        if len(set(refused)) != len(refused):
            raise Failed(f"{self.version}: refused twice without a word: {refused}")
        both = [shown(one) for one in self.orders() if number(one, 34) in refused and value(one, 11) in arrived]
        if both:
            raise Failed(f"{self.version}: refused and passed on: {both}")

    def _same(self, what, sent, got, tag):
        bodies = {value(one, tag): body(one) for one in sent}
        seen, order = set(), []
        for one in got:
            identity = value(one, tag)
            if identity in bodies and body(one) != bodies[identity]:
                raise Failed(f"{self.version}: {what} changed: {bodies[identity]!r} became {body(one)!r}")
            if identity in seen and not is_repeat(one):
                raise Failed(f"{self.version}: {what} twice without 43=Y or 97=Y: {shown(one)}")
            if identity not in seen and identity in bodies and value(one, 97) != b"Y":
                order.append(identity)
            seen.add(identity)
        wanted = [value(one, tag) for one in sent if value(one, tag) in set(order)]
        if order != wanted:
            raise Failed(f"{self.version}: {what}s out of order: {order} for {wanted}")
