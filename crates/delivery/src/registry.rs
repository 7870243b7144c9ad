//! Who is where: the clients, what they listen on, and their addresses.

use std::collections::BTreeMap;

/// A client as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub endpoint: String,
    /// What it listens on, its own topic among it.
    pub topics: Vec<String>,
}

/// All clients that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members(BTreeMap<String, Member>);

impl Members {
    pub fn get(&self, name: &str) -> Option<&Member> {
        self.0.get(name)
    }

    /// Those that listen on a topic, in the order of their names.
    pub fn of_topic(&self, topic: &str) -> impl Iterator<Item = &Member> {
        self.0.values().filter(move |member| member.topics.iter().any(|other| other == topic))
    }
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Members {
        Members(members.into_iter().map(|member| (member.name.clone(), member)).collect())
    }
}
