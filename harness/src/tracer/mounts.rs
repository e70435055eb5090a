//! `/proc/P/mountinfo`: the numbers of mounts and of the sandbox's own devices are others in each sandbox.

/// The file with every mount numbered by its place in the list.
pub(super) fn shown(whole: &str, shown_minor: &dyn Fn(u32) -> Option<u32>) -> String {
    let number = |id: &str| whole.lines().position(|line| line.split(' ').next() == Some(id)).map_or(0, |n| n + 1);
    whole
        .split_inclusive('\n')
        .map(|line| fixed(line, &number, shown_minor).unwrap_or_else(|| line.to_owned()))
        .collect()
}

fn fixed(line: &str, number: &dyn Fn(&str) -> usize, shown_minor: &dyn Fn(u32) -> Option<u32>) -> Option<String> {
    let mut words = line.splitn(4, ' ');
    let (id, parent, device, rest) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let (major, minor) = device.split_once(':')?;
    let minor: u32 = minor.parse().ok()?;
    let shown = if major == "0" { shown_minor(minor) } else { None };
    Some(format!("{} {} {major}:{} {rest}", number(id), number(parent), shown.unwrap_or(minor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_numbered_by_their_place() {
        let minor = |minor| (minor == 48).then_some(80);
        let text = "155 51 0:48 / / rw - tmpfs tmpfs rw\n156 155 254:48 /etc /etc rw - ext4 /dev/vda rw\n\
                    160 156 0:25 / /etc/x ro - tmpfs none ro\n";
        let fixed = "1 0 0:80 / / rw - tmpfs tmpfs rw\n2 1 254:48 /etc /etc rw - ext4 /dev/vda rw\n\
                     3 2 0:25 / /etc/x ro - tmpfs none ro\n";
        assert_eq!(shown(text, &minor), fixed);
        assert_eq!(shown(&text.replace("155", "7").replace("156", "1720"), &minor), fixed, "whatever the numbers are");
        assert_eq!(shown("no such line\n", &minor), "no such line\n");
    }
}
