//! A radix tree that maps topics to values and finds all topics that are prefixes of a message.
//!
//! Guarantees: one walk over the bytes finds all matching topics, and its length depends on the topics' length, not
//! on their number. A topic takes memory in proportion to its length. Nothing recurses, so a long topic cannot
//! overflow the stack. Lack of memory is an error and leaves the tree unchanged. The tree has no limits of its own;
//! its user enforces them.
//!
//! A topic's node keeps its index for as long as the topic has a value.

use pinnace_ring::NoMemory;

/// The node of the empty topic.
const ROOT: u32 = 0;
/// Terminates the free list.
const NONE: u32 = u32::MAX;
/// Up to this many children, linear search is faster than binary search.
const FEW: usize = 8;
/// Capacity in nodes that an empty tree keeps.
const KEPT: usize = 64;

/// The value of a topic.
pub(crate) trait Value: Default {
    /// Returns true if the topic can be removed.
    fn is_empty(&self) -> bool;
}

struct Node<V> {
    value: V,
    /// Sorted by the first byte of the children's labels.
    children: Vec<(u8, u32)>,
    /// The bytes that this node adds to its parent's topic.
    label: Box<[u8]>,
    /// In a free node, the next free node.
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

pub(crate) struct Radix<V> {
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
    pub(crate) fn value(&self, node: u32) -> &V {
        &self.nodes[node as usize].value
    }

    pub(crate) fn value_mut(&mut self, node: u32) -> &mut V {
        &mut self.nodes[node as usize].value
    }

    /// The values of all topics that are a prefix of `bytes`, shortest first. Includes empty values.
    #[inline(always)]
    pub(crate) fn prefixes<'a>(&'a self, bytes: &'a [u8]) -> Prefixes<'a, V> {
        Prefixes { tree: self, next: Some(&self.nodes[ROOT as usize]), rest: bytes }
    }

    /// The nodes of all topics that have a value, in no particular order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.nodes.iter().enumerate();
        all.filter(|(_, node)| !node.value.is_empty()).map(|(index, _)| index as u32)
    }

    /// Appends a node's topic to `into`.
    pub(crate) fn append_topic(&self, node: u32, into: &mut Vec<u8>) -> Result<(), NoMemory> {
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

    /// The topic's node, if it exists.
    pub(crate) fn find(&self, topic: &[u8]) -> Option<u32> {
        let (mut at, mut rest) = (ROOT, topic);
        while let Some(&first) = rest.first() {
            at = self.nodes[at as usize].child(first)?;
            rest = rest.strip_prefix(&*self.nodes[at as usize].label)?;
        }
        Some(at)
    }

    /// Returns the topic's node, created if needed. The caller then sets its value or calls `prune`.
    pub(crate) fn insert(&mut self, topic: &[u8]) -> Result<u32, NoMemory> {
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

    /// Inserts a new node above `node` that takes the first `at` bytes of its label; returns the new node.
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

    /// Removes a node with an empty value, and every ancestor that this makes redundant.
    pub(crate) fn prune(&mut self, mut node: u32) {
        while node != ROOT && self.nodes[node as usize].value.is_empty() {
            let this = &self.nodes[node as usize];
            let (parent, first) = (this.parent, this.label[0]);
            match this.children[..] {
                [] => self.nodes[parent as usize].children.retain(|&(byte, _)| byte != first),
                [(_, child)] => {
                    // Without memory for the merged label the redundant node stays, which is harmless.
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

    /// Frees the memory of a tree that has become empty.
    fn shrink(&mut self) {
        if self.nodes.len() > KEPT && self.nodes[ROOT as usize].children.is_empty() {
            self.nodes.truncate(1);
            self.nodes.shrink_to_fit();
            self.free = NONE;
        }
    }
}

/// Concatenates the parts.
fn copy(parts: &[&[u8]]) -> Result<Box<[u8]>, NoMemory> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(parts.iter().map(|part| part.len()).sum()).map_err(|_| NoMemory)?;
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    Ok(bytes.into_boxed_slice())
}

/// See [`Radix::prefixes`].
pub(crate) struct Prefixes<'a, V> {
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
