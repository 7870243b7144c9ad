"""Runs the selected rows, cell by cell, and fills the table."""
import time

from .cells import Runner
from .peer import Broken, Peer
from .table import Table


class Matrix:
    def __init__(self, ours, peers, log):
        self.ours, self.peers, self.runner = ours, peers, Runner()
        self.table = Table(peers)
        self.playing_ours = Peer("ours", ours.command, log)
        self.playing = {peer.name: Peer(peer.name, peer.command, log) for peer in peers}

    def cell(self, row, peer):
        prevented, spared = row.lacking(self.ours, peer)
        if prevented:
            return self.table.absent(prevented)
        player = self.playing[peer.name]
        try:
            self.runner.run(row, self.playing_ours, player, {lack.spares for lack in spared})
        except Broken as problem:
            self.playing_ours.stop()
            player.stop()
            return self.table.failing(row, peer, problem)
        return self.table.passing(spared)

    def run(self, wanted):
        started = time.monotonic()
        self.table.head()
        for row in wanted:
            self.table.line([*row.words(), *(self.cell(row, peer) for peer in self.peers)])
        for player in (self.playing_ours, *self.playing.values()):
            player.stop()
        self.table.finish(time.monotonic() - started)
        return not self.table.failures and self.table.passed
