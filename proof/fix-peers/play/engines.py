"""How the engines are started, and what their settings files say."""

import messages


class Engine:
    """An engine, and what stands before the names of its dictionaries; QuickFIX/J has its own on its class path."""

    def __init__(self, name, command, dictionaries=""):
        self.name, self.command, self.dictionaries = name, command, dictionaries

    def settings(self, peer):
        is_venue = peer.role == "venue"
        connects = "acceptor" if is_venue else "initiator"
        ends = {"SenderCompID": "VENUE", "SocketAcceptAddress": "127.0.0.1", "SocketAcceptHost": "127.0.0.1", "SocketAcceptPort": peer.port}
        if not is_venue:
            ends = {"SenderCompID": "CLIENT", "SocketConnectHost": "127.0.0.1", "SocketConnectPort": peer.port, "ReconnectInterval": 1}
        default = {
            "ConnectionType": connects,
            "TargetCompID": "GATE",
            "HeartBtInt": 2,
            "StartTime": "00:00:00",
            "EndTime": "00:00:00",
            "FileStorePath": f"{peer.folder}/store",
            "UseDataDictionary": "Y",
            "ValidateUserDefinedFields": "N",
            **ends,
            **peer.settings,
        }
        text = section("DEFAULT", default)
        for version in messages.VERSIONS:
            text += section("SESSION", self.session(version))
        return text

    def session(self, version):
        own = {"BeginString": version}
        if version == "FIXT.1.1":
            own["DefaultApplVerID"] = "FIX.5.0SP2"
            # QuickFIX/J forgets ValidateUserDefinedFields for dictionaries that it chooses by itself.
            own["TransportDataDictionary"] = f"{self.dictionaries}FIXT11.xml"
            own["AppDataDictionary"] = f"{self.dictionaries}FIX50SP2.xml"
        else:
            own["DataDictionary"] = f"{self.dictionaries}{version.replace('.', '')}.xml"
        return own


def section(name, keys):
    return f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items())
