//! How to allow it where this runs.

use std::path::Path;

/// Where a process may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A job of GitHub Actions.
    GithubActions,
    /// A job of GitLab CI.
    Gitlab,
    /// A pod of Kubernetes.
    Kubernetes,
    /// A container of Docker or Podman.
    Container,
    /// None of these.
    Host,
}

/// Guesses the place from the environment and the root directory.
pub fn place(var: impl Fn(&str) -> Option<String>, root: &Path) -> Place {
    let set = |name| var(name).is_some_and(|value| !value.is_empty());
    if set("GITHUB_ACTIONS") {
        Place::GithubActions
    } else if set("GITLAB_CI") {
        Place::Gitlab
    } else if set("KUBERNETES_SERVICE_HOST") {
        Place::Kubernetes
    } else if root.join(".dockerenv").exists() || root.join("run/.containerenv").exists() || set("container") {
        Place::Container
    } else {
        Place::Host
    }
}

/// What to do there.
pub fn advice(place: Place) -> &'static str {
    match place {
        Place::GithubActions => {
            "GitHub Actions: a job on ubuntu-latest needs nothing. A job with `container:` needs\n\
             \x20 container:\n\
             \x20   image: IMAGE\n\
             \x20   options: --cap-add SYS_ADMIN --cap-add SYS_PTRACE --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        }
        Place::Gitlab => {
            "GitLab: the runner's config.toml needs, below [runners.docker],\n\
             \x20 cap_add = [\"SYS_ADMIN\", \"SYS_PTRACE\"]\n\
             \x20 security_opt = [\"seccomp=unconfined\", \"apparmor=unconfined\"]\n\
             or privileged = true; on shared runners of gitlab.com use one that is privileged (saas-linux-*)."
        }
        Place::Kubernetes => {
            "Kubernetes: the container needs\n\
             \x20 securityContext:\n\
             \x20   capabilities: { add: [SYS_ADMIN, SYS_PTRACE] }\n\
             \x20   seccompProfile: { type: Unconfined }\n\
             \x20   appArmorProfile: { type: Unconfined }\n\
             \x20   procMount: Unmasked   # or privileged: true"
        }
        Place::Container => {
            "Docker or Podman: docker run --cap-add SYS_ADMIN --cap-add SYS_PTRACE --security-opt seccomp=unconfined \
             --security-opt apparmor=unconfined --security-opt systempaths=unconfined IMAGE (or --privileged); with \
             --cap-add SYS_PTRACE alone it works with limits"
        }
        Place::Host => {
            "On a host: root, or user namespaces for ordinary users: sysctl user.max_user_namespaces=10000, on Debian \
             kernel.unprivileged_userns_clone=1, on Ubuntu 23.10 or later \
             kernel.apparmor_restrict_unprivileged_userns=0"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_guessed_from_what_it_sets() {
        let empty = tempfile::tempdir().unwrap();
        let docker = tempfile::tempdir().unwrap();
        std::fs::write(docker.path().join(".dockerenv"), "").unwrap();
        let cases = [
            (&["GITHUB_ACTIONS"][..], empty.path(), Place::GithubActions),
            (&["GITLAB_CI"], docker.path(), Place::Gitlab),
            (&["KUBERNETES_SERVICE_HOST"], docker.path(), Place::Kubernetes),
            (&[], docker.path(), Place::Container),
            (&["container"], empty.path(), Place::Container),
            (&[], empty.path(), Place::Host),
        ];
        for (set, root, expected) in cases {
            let var = |name: &str| set.contains(&name).then(|| "true".to_owned());
            assert_eq!(place(var, root), expected, "{set:?}");
        }
    }
}
