//! A radix tree: values by topic, found by what a message begins with.
//!
//! What it guarantees: the values of all topics that bytes begin with are found in one walk over those bytes,
//! whose length depends on the topics and not on their number; a topic takes memory in proportion to its
//! length; nothing recurses, so that no topic is too long for the stack; memory that cannot be had is an
//! error, and the tree as before. What it does not: it limits nothing. That is its user's part.
//!
//! A topic's node keeps its number for as long as the topic has a value.

use pinnace_ring::NoMemory;

/// The node of the empty topic.
const ROOT: u32 = 0;
/// Ends the list of free nodes.
const NONE: u32 = u32::MAX;
/// Children up to which looking through them beats halving.
const FEW: usize = 8;
/// Nodes that an empty tree keeps the memory of.
const KEPT: usize = 64;

/// What a topic has.
pub(super) trait Value: Default {
    /// The topic is as good as not there.
    fn is_empty(&self) -> bool;
}

struct Node<V> {
    value: V,
    /// By the first byte of their labels, in its order.
    children: Vec<(u8, u32)>,
    /// What follows the parent's topic.
    label: Box<[u8]>,
    /// The next free node, where this one is free.
    parent: u32,
}

impl<V> Node<V> {
    #[inline(always)]
    fn child(&self, first: u8) -> Option<u32> {
        let index = if self.children.len() <= FEW {
            self.children.iter().position(|&(byte, _)| byte == first)?
        } else {
            self.children.binary_search_by_key(&first, |&(byte, _)| byte).ok()?
        };
        Some(self.children[index].1)
    }

    fn relink(&mut self, first: u8, to: u32) {
        if let Some(child) = self.children.iter_mut().find(|(byte, _)| *byte == first) {
            child.1 = to;
        }
    }
}

/// The tree.
pub(super) struct Radix<V> {
    nodes: Vec<Node<V>>,
    free: u32,
}

impl<V: Value> Default for Radix<V> {
    fn default() -> Radix<V> {
        let root = Node { value: V::default(), children: Vec::new(), label: Box::default(), parent: ROOT };
        Radix { nodes: vec![root], free: NONE }
    }
}

impl<V: Value> Radix<V> {
    pub(super) fn value(&self, node: u32) -> &V {
        &self.nodes[node as usize].value
    }

    pub(super) fn value_mut(&mut self, node: u32) -> &mut V {
        &mut self.nodes[node as usize].value
    }

    /// The values of all topics that `bytes` begin with, the shortest first; empty ones among them.
    #[inline(always)]
    pub(super) fn prefixes<'a>(&'a self, bytes: &'a [u8]) -> Prefixes<'a, V> {
        Prefixes { tree: self, next: Some(&self.nodes[ROOT as usize]), rest: bytes }
    }

    /// The nodes of all topics that have a value, in no order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.nodes.iter().enumerate();
        all.filter(|(_, node)| !node.value.is_empty()).map(|(index, _)| index as u32)
    }

    /// Writes a node's topic behind what `into` holds.
    pub(super) fn append_topic(&self, node: u32, into: &mut Vec<u8>) -> Result<(), NoMemory> {
        let way = || {
            std::iter::successors(Some(node), |&at| {
                Some(self.nodes[at as usize].parent).filter(|_| at != ROOT)
            })
        };
        let label = |at: u32| &self.nodes[at as usize].label;
        let len = way().map(|at| label(at).len()).sum::<usize>();
        into.try_reserve(len).map_err(|_| NoMemory)?;
        let mut end = into.len() + len;
        into.resize(end, 0);
        for at in way() {
            let start = end - label(at).len();
            into[start..end].copy_from_slice(label(at));
            end = start;
        }
        Ok(())
    }

    /// The topic's node, where it has one.
    pub(super) fn find(&self, topic: &[u8]) -> Option<u32> {
        let (mut at, mut rest) = (ROOT, topic);
        while let Some(&first) = rest.first() {
            at = self.nodes[at as usize].child(first)?;
            rest = rest.strip_prefix(&*self.nodes[at as usize].label)?;
        }
        Some(at)
    }

    /// The topic's node, made where there is none. Its value has to be set, or `prune` be called.
    pub(super) fn insert(&mut self, topic: &[u8]) -> Result<u32, NoMemory> {
        let (mut at, mut rest) = (ROOT, topic);
        while let Some(&first) = rest.first() {
            let Some(next) = self.nodes[at as usize].child(first) else {
                let leaf = self.add_leaf(at, rest);
                if leaf.is_err() {
                    self.prune(at);
                }
                return leaf;
            };
            let label = &self.nodes[next as usize].label;
            let common = label.iter().zip(rest).take_while(|(a, b)| a == b).count();
            at = if common == label.len() { next } else { self.split(next, common)? };
            rest = &rest[common..];
        }
        Ok(at)
    }

    fn add_leaf(&mut self, parent: u32, label: &[u8]) -> Result<u32, NoMemory> {
        let label = copy(&[label])?;
        let first = label[0];
        self.nodes[parent as usize].children.try_reserve(1).map_err(|_| NoMemory)?;
        let leaf = self.put(Node { value: V::default(), children: Vec::new(), label, parent })?;
        let siblings = &mut self.nodes[parent as usize].children;
        siblings.insert(siblings.partition_point(|&(byte, _)| byte < first), (first, leaf));
        Ok(leaf)
    }

    /// Puts a node in front of this one, which takes the first `at` bytes of its label.
    fn split(&mut self, node: u32, at: usize) -> Result<u32, NoMemory> {
        let (head, tail) = self.nodes[node as usize].label.split_at(at);
        let (head, tail) = (copy(&[head])?, copy(&[tail])?);
        let (first, parent) = (head[0], self.nodes[node as usize].parent);
        let mut children = Vec::new();
        children.try_reserve_exact(1).map_err(|_| NoMemory)?;
        children.push((tail[0], node));
        let middle = self.put(Node { value: V::default(), children, label: head, parent })?;
        self.nodes[parent as usize].relink(first, middle);
        self.nodes[node as usize].label = tail;
        self.nodes[node as usize].parent = middle;
        Ok(middle)
    }

    fn put(&mut self, node: Node<V>) -> Result<u32, NoMemory> {
        if self.free != NONE {
            let index = self.free;
            self.free = self.nodes[index as usize].parent;
            self.nodes[index as usize] = node;
            return Ok(index);
        }
        let index = u32::try_from(self.nodes.len()).ok().filter(|&index| index != NONE).ok_or(NoMemory)?;
        self.nodes.try_reserve(1).map_err(|_| NoMemory)?;
        self.nodes.push(node);
        Ok(index)
    }

    /// Takes out a node whose value is empty, and those above it that are of no more use.
    pub(super) fn prune(&mut self, mut node: u32) {
        while node != ROOT && self.nodes[node as usize].value.is_empty() {
            let this = &self.nodes[node as usize];
            let (parent, first) = (this.parent, this.label[0]);
            match this.children[..] {
                [] => self.nodes[parent as usize].children.retain(|&(byte, _)| byte != first),
                [(_, child)] => {
                    // Without memory for the longer label it stays as it is: of no use, and no harm.
                    let Ok(label) = copy(&[&this.label, &self.nodes[child as usize].label]) else { return };
                    self.nodes[child as usize].label = label;
                    self.nodes[child as usize].parent = parent;
                    self.nodes[parent as usize].relink(first, child);
                }
                _ => return,
            }
            self.release(node);
            node = parent;
        }
        self.shrink();
    }

    fn release(&mut self, node: u32) {
        let this = &mut self.nodes[node as usize];
        this.children = Vec::new();
        this.label = Box::default();
        this.parent = std::mem::replace(&mut self.free, node);
    }

    /// Lets go of the memory of a tree that has become empty.
    fn shrink(&mut self) {
        if self.nodes.len() > KEPT && self.nodes[ROOT as usize].children.is_empty() {
            self.nodes.truncate(1);
            self.nodes.shrink_to_fit();
            self.free = NONE;
        }
    }
}

/// The parts, one behind the other.
fn copy(parts: &[&[u8]]) -> Result<Box<[u8]>, NoMemory> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(parts.iter().map(|part| part.len()).sum()).map_err(|_| NoMemory)?;
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    Ok(bytes.into_boxed_slice())
}

/// See [`Radix::prefixes`].
pub(super) struct Prefixes<'a, V> {
    tree: &'a Radix<V>,
    next: Option<&'a Node<V>>,
    rest: &'a [u8],
}

impl<'a, V> Iterator for Prefixes<'a, V> {
    type Item = &'a V;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a V> {
        let node = self.next.take()?;
        if let Some(&first) = self.rest.first()
            && let Some(child) = node.child(first)
        {
            let child = &self.tree.nodes[child as usize];
            if let Some(rest) = self.rest.strip_prefix(&*child.label) {
                (self.next, self.rest) = (Some(child), rest);
            }
        }
        Some(&node.value)
    }
}
