//! The cheapest cut of a network: Dinic's algorithm.

pub const INFINITE: u64 = u64::MAX / 4;

#[derive(Clone, Copy)]
struct Edge {
    to: u32,
    room: u64,
}

/// Edge `2k` and its opposite `2k + 1` lie side by side.
pub struct Network {
    edges: Vec<Edge>,
    out: Vec<Vec<u32>>,
}

impl Network {
    pub fn new(nodes: usize) -> Network {
        Network { edges: Vec::new(), out: vec![Vec::new(); nodes] }
    }

    pub fn edge(&mut self, from: usize, to: usize, room: u64) {
        for (a, b, room) in [(from, to, room), (to, from, 0)] {
            self.out[a].push(self.edges.len() as u32);
            self.edges.push(Edge { to: b as u32, room });
        }
    }

    /// The nodes from which the sink can still be reached when as much flows as can. Of all cheapest cuts this is the one nearest
    /// to the sink.
    pub fn sink_side(mut self, source: usize, sink: usize) -> Vec<bool> {
        while let Some(levels) = self.levels(source, sink) {
            let mut next = vec![0; self.out.len()];
            while self.push(source, sink, &levels, &mut next) > 0 {}
        }
        self.reaching(sink)
    }

    fn levels(&self, source: usize, sink: usize) -> Option<Vec<u32>> {
        let mut level = vec![u32::MAX; self.out.len()];
        level[source] = 0;
        let mut queue = std::collections::VecDeque::from([source]);
        while let Some(at) = queue.pop_front() {
            for edge in self.out[at].iter().map(|e| self.edges[*e as usize]).filter(|e| e.room > 0) {
                if level[edge.to as usize] == u32::MAX {
                    level[edge.to as usize] = level[at] + 1;
                    queue.push_back(edge.to as usize);
                }
            }
        }
        (level[sink] != u32::MAX).then_some(level)
    }

    /// Sends as much as fits along one path that goes down the levels. `next` is the first edge of each node that is not exhausted.
    fn push(&mut self, source: usize, sink: usize, level: &[u32], next: &mut [usize]) -> u64 {
        let mut path: Vec<u32> = Vec::new();
        let mut at = source;
        while at != sink {
            match self.step(at, level, next) {
                Some(edge) => {
                    path.push(edge);
                    at = self.edges[edge as usize].to as usize;
                }
                None => {
                    let Some(back) = path.pop() else { return 0 };
                    at = self.edges[back as usize ^ 1].to as usize;
                    next[at] += 1;
                }
            }
        }
        let room = path.iter().map(|e| self.edges[*e as usize].room).min().unwrap_or(0);
        for edge in path {
            self.edges[edge as usize].room -= room;
            self.edges[edge as usize ^ 1].room += room;
        }
        room
    }

    fn step(&self, at: usize, level: &[u32], next: &mut [usize]) -> Option<u32> {
        while let Some(edge) = self.out[at].get(next[at]) {
            let Edge { to, room } = self.edges[*edge as usize];
            if room > 0 && level[to as usize] == level[at] + 1 {
                return Some(*edge);
            }
            next[at] += 1;
        }
        None
    }

    fn reaching(&self, sink: usize) -> Vec<bool> {
        let mut reaching = vec![false; self.out.len()];
        reaching[sink] = true;
        let mut stack = vec![sink];
        while let Some(at) = stack.pop() {
            for edge in &self.out[at] {
                // The opposite edge comes towards this node.
                let (from, room) = (self.edges[*edge as usize].to as usize, self.edges[*edge as usize ^ 1].room);
                if room > 0 && !reaching[from] {
                    reaching[from] = true;
                    stack.push(from);
                }
            }
        }
        reaching
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_is_the_cheapest_and_the_last() {
        // 0 -9-> 1 -3-> 2 -3-> 3 -9-> 4
        let mut network = Network::new(5);
        for (from, room) in [9, 3, 3, 9].into_iter().enumerate() {
            network.edge(from, from + 1, room);
        }
        assert_eq!(network.sink_side(0, 4), [false, false, false, true, true]);
    }

    #[test]
    fn two_paths_share_what_they_can() {
        // Both 1 and 2 feed 3; to cut 3 costs 5, the two before it 3 + 3.
        let mut network = Network::new(6);
        network.edge(0, 1, INFINITE);
        network.edge(0, 2, INFINITE);
        network.edge(1, 3, 3);
        network.edge(2, 3, 3);
        network.edge(3, 4, 5);
        network.edge(4, 5, INFINITE);
        assert_eq!(network.sink_side(0, 5), [false, false, false, false, true, true]);
    }
}
