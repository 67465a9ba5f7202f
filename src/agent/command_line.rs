//! What a shell command does with git: which of its parts stage, commit or push; and whether it applies a patch.
//!
//! A small reader of shell syntax, for an agent in whose shell no git hooks run. It follows `cd`, `git -C` and `sh -c`, and
//! reads words in quotes. A here-document is input, and counts as a script only if a shell reads it. Nothing is run or
//! expanded: a word with a variable or a substitution stands for everything it could be.

use std::path::{Path, PathBuf};

use super::patch;

/// Commands inside of commands (`sh -c "sh -c …"`) are read to this depth.
const DEPTH_MAX: usize = 4;

/// The most bytes of a command that are read.
const COMMAND_BYTES_MAX: usize = 256 * 1024;

/// The most here-documents of a command that are read.
const DOCUMENTS_MAX: usize = 100;

/// The most substitutions in double quotes that are read.
const SUBSTITUTIONS_MAX: usize = 100;

/// Programs that run the command after them, and words of the shell that a command follows.
const PREFIXES: [&str; 22] = [
    "command", "env", "sudo", "time", "nohup", "exec", "nice", "builtin", "timeout", "setsid", "stdbuf", "ionice",
    "xargs", "doas", "then", "do", "else", "elif", "if", "while", "until", "!",
];

/// One use of git that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitUse {
    /// The directory that git runs in: absolute, or below `~`. One that could be anywhere is the one that the command is
    /// started in.
    pub dir: PathBuf,
    pub what: GitWork,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitWork {
    /// `git add`, `git rm` and `git mv` with these paths.
    Stage(PathArgs),
    /// `git commit`: of what is staged, of everything tracked (`-a`), or of these paths alone.
    Commit { all: bool, paths: PathArgs },
    /// `git push` with these arguments: a repository, then refs; or of all branches.
    Push { all: bool, args: Vec<String> },
}

/// Paths as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathArgs {
    pub paths: Vec<String>,
    /// Everything that has changed: there is an option that says so, or a word that cannot be read.
    pub everything: bool,
}

/// Names of the program with which Codex applies a patch.
const PATCH_PROGRAMS: [&str; 2] = ["apply_patch", "applypatch"];

/// The uses of git in a command that is started in `cwd`, in order.
pub fn git_uses(command: &str, cwd: &Path) -> Vec<GitUse> {
    found(command, cwd).git
}

/// The patches that a command applies with `apply_patch`, in order. One that only mentions it, or has a patch in a document,
/// applies none.
pub fn patches(command: &str) -> Vec<PatchUse> {
    found(command, Path::new("")).patches
}

/// One use of `apply_patch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchUse {
    /// The directory that it runs in, as far as that is known: empty, or relative to where the command is started.
    pub dir: PathBuf,
    /// The patch; none if it comes from another part of the command.
    pub text: Option<String>,
}

/// What was found in a command.
#[derive(Debug, Default)]
struct Found {
    /// The directory that the command is started in.
    start: PathBuf,
    git: Vec<GitUse>,
    patches: Vec<PatchUse>,
}

fn found(command: &str, cwd: &Path) -> Found {
    let mut uses = Found { start: cwd.to_owned(), ..Found::default() };
    let mut end = command.len().min(COMMAND_BYTES_MAX);
    while !command.is_char_boundary(end) {
        end -= 1;
    }
    read(&command[..end], &Directory { path: cwd.to_owned(), is_open: false }, 0, &mut uses);
    uses
}

/// The directory that a part of a command runs in.
#[derive(Debug, Clone)]
struct Directory {
    path: PathBuf,
    /// Whether the shell would replace a part of it.
    is_open: bool,
}

impl Directory {
    fn change(&mut self, to: &Word) {
        let is_home = to.text == "~" || to.text.starts_with("~/");
        let is_absolute = is_home || Path::new(&to.text).is_absolute();
        let is_other_home = to.text.starts_with('~') && !is_home;
        self.is_open = to.is_open || is_other_home || (self.is_open && !is_absolute);
        self.path = if is_absolute { PathBuf::from(&to.text) } else { self.path.join(&to.text) };
    }

    /// The directory; the other one if it could be anywhere.
    fn or<'a>(&'a self, other: &'a Path) -> &'a Path {
        if self.is_open { other } else { &self.path }
    }
}

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Word {
    text: String,
    /// Whether the shell would replace a part of it.
    is_open: bool,
}

/// A command with its words, and the here-documents that it reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct SimpleCommand {
    words: Vec<Word>,
    documents: Vec<String>,
}

fn read(command: &str, cwd: &Directory, depth: usize, uses: &mut Found) {
    let mut dir = cwd.clone();
    for command in simple_commands(command, depth) {
        one(&command, &mut dir, depth, uses);
    }
}

/// Reads one simple command.
fn one(command: &SimpleCommand, dir: &mut Directory, depth: usize, uses: &mut Found) {
    let words = &command.words;
    let Some((program, args)) = words[program_at(words)..].split_first() else { return };
    let name = program.text.rsplit('/').next().unwrap_or_default();
    match name {
        "cd" | "pushd" => match args.iter().find(|word| word.text == "-" || !word.text.starts_with('-')) {
            Some(to) if to.text != "-" => dir.change(to),
            None if name == "cd" => dir.change(&Word { text: "~".to_owned(), is_open: false }),
            // Back to an earlier directory, which is not kept.
            _ => dir.is_open = true,
        },
        "sh" | "bash" | "dash" | "zsh" | "ksh" if depth < DEPTH_MAX => {
            let at = args.iter().position(|word| word.text.starts_with('-') && word.text.ends_with('c'));
            match at.and_then(|at| args.get(at + 1)) {
                Some(script) => read(&script.text, dir, depth + 1, uses),
                None => command.documents.iter().for_each(|script| read(script, dir, depth + 1, uses)),
            }
        }
        "eval" if depth < DEPTH_MAX => {
            let script: Vec<&str> = args.iter().map(|word| &*word.text).collect();
            read(&script.join(" "), dir, depth + 1, uses);
        }
        "git" => uses.git.extend(git_use(args, dir, &uses.start)),
        name if PATCH_PROGRAMS.contains(&name) => {
            let given = command.documents.iter().chain(args.iter().map(|word| &word.text));
            let text = given.filter(|text| patch::is_patch(text)).cloned().reduce(|all, one| all + "\n" + &one);
            // One that could be anywhere is looked for from where the command is started.
            let dir = dir.or(&uses.start).to_owned();
            uses.patches.push(PatchUse { dir, text });
        }
        _ => {}
    }
}

/// Where the program is among the words of a command: after assignments, and after programs that run another one with their
/// options, numbers (`timeout 5`), and the words after short options (`sudo -u ana`) unless they are the program.
fn program_at(words: &[Word]) -> usize {
    let is_program = |text: &str| matches!(text, "git" | "sh" | "bash" | "eval") || PATCH_PROGRAMS.contains(&text);
    let (mut is_after_prefix, mut is_after_option) = (false, false);
    for (at, Word { text, .. }) in words.iter().enumerate() {
        let is_option = is_after_prefix && text.starts_with('-');
        let is_value = is_after_option && !is_program(text.rsplit('/').next().unwrap_or_default());
        if PREFIXES.contains(&&**text) {
            (is_after_prefix, is_after_option) = (true, false);
        } else if is_option {
            is_after_option = text.len() == 2;
        } else if is_assignment(text) || is_value || (is_after_prefix && text.starts_with(|c: char| c.is_ascii_digit()))
        {
            is_after_option = false;
        } else {
            return at;
        }
    }
    words.len()
}

fn git_use(args: &[Word], dir: &Directory, start: &Path) -> Option<GitUse> {
    let mut dir = dir.clone();
    let mut args = args.iter();
    let command = loop {
        let word = args.next()?;
        match &*word.text {
            "-C" => dir.change(args.next()?),
            "-c" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path" | "--config-env" => drop(args.next()?),
            option if option.starts_with('-') => {}
            command => break command,
        }
    };
    let args: Vec<&Word> = args.collect();
    let has = |options: &[&str]| args.iter().any(|word| options.contains(&&*word.text));
    // Neither changes anything. The short form of `git commit --dry-run` means something else.
    if has(&["--dry-run", "--help", "-h"]) || (command == "push" && has(&["-n"])) {
        return None;
    }
    let what = match command {
        "add" | "stage" | "rm" | "mv" => GitWork::Stage(staged(&args)),
        "commit" => commit(&args),
        "push" => GitWork::Push { all: has(&["--all", "--branches", "--mirror"]), args: refs(&args) },
        _ => return None,
    };
    Some(GitUse { dir: dir.or(start).to_owned(), what })
}

fn staged(args: &[&Word]) -> PathArgs {
    let paths = after_options(args, |_| false);
    let is_all = |word: &&&Word| matches!(&*word.text, "-A" | "--all" | "-u" | "--update");
    let is_unknown = |word: &&&Word| word.is_open || word.text.starts_with("--pathspec-from");
    // With paths, these options mean the paths alone.
    let everything = args.iter().any(|word| is_unknown(&word) || (paths.is_empty() && is_all(&word)));
    PathArgs { paths, everything }
}

fn commit(args: &[&Word]) -> GitWork {
    let takes_value = |option: &str| match option.strip_prefix("--") {
        Some(long) => {
            let names = ["message", "file", "author", "date", "template", "cleanup", "fixup", "squash", "trailer"];
            names.contains(&long) || matches!(long, "reuse-message" | "reedit-message")
        }
        // A value may follow in the same word: `-mtext`.
        None => option[1..].find(['m', 'F', 'C', 'c', 't']).is_some_and(|at| at + 2 == option.len()),
    };
    let before_value = |option: &str| option.split(['m', 'F', 'C', 'c', 't']).next().unwrap_or_default().to_owned();
    let is_all = |word: &&Word| match word.text.strip_prefix('-') {
        Some("-all") => true,
        Some(short) if !short.starts_with('-') => before_value(short).contains('a'),
        _ => false,
    };
    let options: Vec<&&Word> = args.iter().take_while(|word| word.text != "--").collect();
    let all = options.iter().any(|word| is_all(word));
    let from_file = options.iter().any(|word| word.text.starts_with("--pathspec-from"));
    let paths = after_options(args, takes_value);
    let is_open = args.iter().any(|word| word.is_open && paths.contains(&word.text));
    GitWork::Commit { all, paths: PathArgs { paths, everything: is_open || from_file } }
}

/// The repository and the refs of a push. A branch that only the shell knows is most likely the one that is checked out.
fn refs(args: &[&Word]) -> Vec<String> {
    let takes_value = |option: &str| matches!(option, "-o" | "--push-option" | "--receive-pack" | "--exec" | "--repo");
    let is_open = |text: &str| args.iter().any(|word| word.is_open && word.text == text);
    let mut words = after_options(args, takes_value);
    if words.first().is_some_and(|remote| is_open(remote)) {
        return Vec::new();
    }
    for reference in words.iter_mut().skip(1).filter(|reference| is_open(reference)) {
        let source = reference.split(':').next().unwrap_or_default();
        if source.contains(['$', '`', '*']) {
            *reference = "HEAD".to_owned();
        }
    }
    words
}

/// The words that are neither options nor values of options.
fn after_options(args: &[&Word], takes_value: impl Fn(&str) -> bool) -> Vec<String> {
    let mut words = Vec::new();
    let mut args = args.iter();
    while let Some(word) = args.next() {
        match &*word.text {
            "--" => {
                words.extend(args.map(|word| word.text.clone()));
                break;
            }
            option if option.len() > 1 && option.starts_with('-') => {
                if takes_value(option) {
                    args.next();
                }
            }
            text => words.push(text.to_owned()),
        }
    }
    words
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

/// The simple commands of a shell command; those of substitutions in double quotes come last.
fn simple_commands(command: &str, depth: usize) -> Vec<SimpleCommand> {
    let mut all = vec![SimpleCommand::default()];
    let mut scripts: Vec<String> = Vec::new();
    let mut word: Option<Word> = None;
    let mut chars = command.chars().peekable();
    // Here-documents that begin after this line: which command reads them, and the line that ends them.
    let mut expected: Vec<(usize, String)> = Vec::new();
    let mut documents = 0;
    let end_word = |word: &mut Option<Word>, all: &mut Vec<SimpleCommand>| {
        if let (Some(word), Some(command)) = (word.take(), all.last_mut()) {
            command.words.push(word);
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(next) => word.get_or_insert_default().text.push(next),
            },
            '\'' => {
                let word = word.get_or_insert_default();
                word.text.extend(chars.by_ref().take_while(|c| *c != '\''));
            }
            '"' => quoted(&mut chars, word.get_or_insert_default(), &mut scripts),
            // A substitution is a command of its own; as a part of a word it could be anything.
            '`' => {
                word.get_or_insert_default().is_open = true;
                end_word(&mut word, &mut all);
                all.push(SimpleCommand::default());
            }
            '$' => {
                let word = word.get_or_insert_default();
                word.is_open = true;
                word.text.push(c);
            }
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            ';' | '&' | '|' | '\n' | '(' | ')' | '{' | '}' => {
                // Braces and parentheses inside of a word belong to it.
                if matches!(c, '{' | '}') && word.is_some() {
                    let word = word.get_or_insert_default();
                    word.is_open = true;
                    word.text.push(c);
                    continue;
                }
                end_word(&mut word, &mut all);
                if c == '\n' {
                    for (reader, end) in expected.drain(..) {
                        all[reader].documents.extend(document(&mut chars, &end));
                    }
                }
                all.push(SimpleCommand::default());
            }
            '<' if chars.next_if_eq(&'<').is_some() && chars.peek() != Some(&'<') => {
                end_word(&mut word, &mut all);
                let end = document_end(&mut chars);
                documents += 1;
                expected.extend((!end.is_empty() && documents <= DOCUMENTS_MAX).then_some((all.len() - 1, end)));
            }
            '<' | '>' => {
                end_word(&mut word, &mut all);
                // What follows is a file, not an argument.
                while chars.next_if(|c| matches!(c, '<' | '>' | '&' | ' ' | '\t')).is_some() {}
                while chars.next_if(|c| !c.is_whitespace() && !matches!(c, ';' | '&' | '|' | ')')).is_some() {}
            }
            c if c.is_whitespace() => end_word(&mut word, &mut all),
            c => {
                let word = word.get_or_insert_default();
                word.is_open |= matches!(c, '*' | '?' | '[');
                word.text.push(c);
            }
        }
    }
    end_word(&mut word, &mut all);
    all.retain(|command| !command.words.is_empty());
    if depth < DEPTH_MAX {
        all.extend(scripts.iter().flat_map(|script| simple_commands(script, depth + 1)));
    }
    all
}

/// The word after `<<`: the line that ends the here-document.
fn document_end(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    while chars.next_if(|c| matches!(c, '-' | ' ' | '\t')).is_some() {}
    let mut end = String::new();
    while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !matches!(c, ';' | '&' | '|' | '<' | '>' | '(' | ')')) {
        if !matches!(c, '\'' | '"' | '\\') {
            end.push(c);
        }
    }
    end
}

/// A here-document, read up to the line that ends it. If there is no such line, it was none, and nothing is read.
fn document(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, end: &str) -> Option<String> {
    let rest: String = chars.clone().collect();
    let text = &rest[..document_length(&rest, end)?];
    chars.by_ref().take(text.chars().count()).for_each(drop);
    let last_line = text.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
    Some(text[..last_line].to_owned())
}

/// How long a here-document is, in bytes, with the line that ends it. None if no line does.
fn document_length(text: &str, end: &str) -> Option<usize> {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        if line.trim_end_matches(['\n', '\r']).trim_start_matches('\t') == end {
            return Some(length);
        }
    }
    None
}

/// Reads the rest of a word in double quotes. A substitution in it may have quotes of its own; it is added to `scripts`.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, word: &mut Word, scripts: &mut Vec<String>) {
    while let Some(c) = chars.next() {
        match c {
            '"' => return,
            '\\' => match chars.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.text.push(next),
                Some('\n') | None => {}
                Some(next) => word.text.extend(['\\', next]),
            },
            '$' | '`' => {
                word.is_open = true;
                word.text.push(c);
                if c == '$' && chars.peek() == Some(&'(') && scripts.len() < SUBSTITUTIONS_MAX {
                    let rest: String = chars.clone().skip(1).collect();
                    let length = substitution_length(&rest);
                    // One that does not end is counted too: looking for its end takes as long.
                    let script = length.map_or("", |length| &rest[..length]);
                    let read = if length.is_some() { script.chars().count() + 2 } else { 0 };
                    word.text.extend(chars.by_ref().take(read));
                    scripts.push(script.to_owned());
                }
            }
            c => word.text.push(c),
        }
    }
}

/// How long a substitution is, in bytes: up to the parenthesis that ends it. None if none does.
fn substitution_length(text: &str) -> Option<usize> {
    // What is open: parentheses, and double quotes, in which only a substitution opens another one.
    let mut open = vec!['('];
    let mut expected: Vec<String> = Vec::new();
    let mut documents = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let in_quotes = open.last() == Some(&'"');
        match c {
            '\\' => drop(chars.next()),
            '"' if in_quotes => drop(open.pop()),
            '"' => open.push('"'),
            '$' if in_quotes && chars.next_if(|(_, c)| *c == '(').is_some() => open.push('('),
            _ if in_quotes => {}
            '\'' => {
                while chars.next_if(|(_, c)| *c != '\'').is_some() {}
                chars.next();
            }
            '(' => open.push('('),
            ')' => {
                open.pop();
                if open.is_empty() {
                    return Some(at);
                }
            }
            '<' if text[at..].starts_with("<<") && !text[at..].starts_with("<<<") => {
                chars.next();
                let end = document_end(&mut text[at + 2..].chars().peekable());
                documents += 1;
                expected.extend((!end.is_empty() && documents <= DOCUMENTS_MAX).then_some(end));
            }
            '\n' => {
                let mut from = at + 1;
                for end in expected.drain(..) {
                    from += document_length(&text[from..], &end).unwrap_or_default();
                }
                while chars.next_if(|(at, _)| *at < from).is_some() {}
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(command: &str) -> Vec<String> {
        let show = |used: GitUse| {
            let paths = |args: PathArgs| {
                let everything = if args.everything { " everything" } else { "" };
                format!("{}{everything}", args.paths.iter().map(|path| format!(" {path}")).collect::<String>())
            };
            let what = match used.what {
                GitWork::Stage(args) => format!("stage{}", paths(args)),
                GitWork::Commit { all, paths: args } => {
                    format!("commit{}{}", if all { " -a" } else { "" }, paths(args))
                }
                GitWork::Push { all, args } => {
                    format!("push {}{}", if all { "all " } else { "" }, args.join(" ")).trim_end().to_owned()
                }
            };
            format!("{}: {what}", used.dir.display())
        };
        git_uses(command, Path::new("/r")).into_iter().map(show).collect()
    }

    #[test]
    fn commits_and_pushes_are_found_wherever_they_are() {
        for (command, expected) in [
            ("git commit -m 'a b'", &["/r: commit"][..]),
            ("git commit -am \"x; git push\"", &["/r: commit -a"]),
            ("git commit -ma", &["/r: commit"]),
            ("git commit --message x src/a.rs b", &["/r: commit src/a.rs b"]),
            ("git commit -m x -- -b", &["/r: commit -b"]),
            (
                "git add -A && git commit -q -m x && git push -u origin HEAD:main",
                &["/r: stage everything", "/r: commit", "/r: push origin HEAD:main"],
            ),
            ("cd sub; git add a 'b c'; git -C ../x commit", &["/r/sub: stage a b c", "/r/sub/../x: commit"]),
            ("GIT_AUTHOR_NAME=x sudo git --no-pager -c a.b=c commit --all", &["/r: commit -a"]),
            ("sh -c 'git commit -m x'; (git push)", &["/r: commit", "/r: push"]),
            ("echo `git commit`; echo $(git push --tags)", &["/r: commit", "/r: push"]),
            ("git commit -F - <<EOF\nmessage\nEOF", &["/r: commit"]),
            ("git add $FILES; git add *.rs", &["/r: stage $FILES everything", "/r: stage *.rs everything"]),
            ("git commit \\\n  -m x", &["/r: commit"]),
            ("/usr/bin/git push -o ci.skip origin", &["/r: push origin"]),
            ("git push origin \"$BRANCH\" HEAD:$X", &["/r: push origin HEAD HEAD:$X"]),
            ("git push -u origin $(git branch --show-current)", &["/r: push origin HEAD"]),
            ("git push $REMOTE main; git push --all origin", &["/r: push", "/r: push all origin"]),
            ("bash <<'E'\ngit commit\nE\ngit push", &["/r: commit", "/r: push"]),
            ("cat <<E >>a && git commit -m x\ngit push\nE\ncd s; git push", &["/r: commit", "/r/s: push"]),
            ("echo $((1<<2)); git push\ngit commit", &["/r: push", "/r: commit"]),
            ("cat <<< x; git push", &["/r: push"]),
            ("timeout -k 3 5s git commit", &["/r: commit"]),
            (
                "sudo -u ana git push; nice -n 5 /usr/bin/git commit; time -p git push",
                &["/r: push", "/r: commit", "/r: push"],
            ),
            ("echo a | xargs -0 git commit -m", &["/r: commit"]),
            ("cd ~/x && git commit; git -C ~ push", &["~/x: commit", "~: push"]),
            ("cd ~ana/x && git commit; cd ~ && cd x/~ && git push", &["/r: commit", "~/x/~: push"]),
            ("cd \"$(git rev-parse --show-toplevel)\" && git commit -a", &["/r: commit -a"]),
            ("cd $(pwd)/x; git commit; cd /y; git push", &["/r: commit", "/y: push"]),
            ("cd s; git -C $TOP commit; cd -; git push; cd; git push", &["/r: commit", "/r: push", "~: push"]),
            ("git add .; git add -A src; git add -u -- a", &["/r: stage .", "/r: stage src", "/r: stage a"]),
            ("for x in a; do git push; done; if ! git commit; then :; fi", &["/r: push", "/r: commit"]),
        ] {
            assert_eq!(uses(command), expected, "{command}");
        }
        for nothing in [
            "git status",
            "sudo echo git commit",
            "timeout 5",
            "env -i",
            "echo git commit",
            "# git commit",
            "echo 'git commit'",
            "git log --grep commit",
            "",
        ] {
            assert!(uses(nothing).is_empty(), "{nothing}");
        }
    }

    /// The message ended at its first quotation mark, and the words after it were taken for paths and commands.
    #[test]
    fn a_message_with_quotes_in_a_document_was_torn_apart() {
        let message = "feat: say \"hi\" (it's new)\n\nThen git push; git commit -a\n";
        for (command, expected) in [
            (format!("git commit -m \"$(cat <<'EOF'\n{message}EOF\n)\" && git push"), &["/r: commit", "/r: push"][..]),
            (format!("git commit -am \"$(cat <<E\n{message}E\n)\" -- a"), &["/r: commit -a a"]),
            ("git commit -m \"$(echo \"a b\" 'c)' $((1+(2))))\" x".to_owned(), &["/r: commit x"]),
            ("git commit -m \"x $(git push \"$(git remote)\") y\"".to_owned(), &["/r: commit", "/r: push"]),
            ("git commit -m \"$(unclosed\" b; git push".to_owned(), &["/r: commit b", "/r: push"]),
        ] {
            assert_eq!(uses(&command), expected, "{command}");
        }
        let deep = "git commit -m \"$(".repeat(10_000);
        assert!(!uses(&deep).is_empty());
    }

    #[test]
    fn a_command_that_changes_nothing_is_none() {
        for nothing in
            ["git commit -a --dry-run", "git push --dry-run", "git push -n", "git commit --help", "git add -h"]
        {
            assert!(uses(nothing).is_empty(), "{nothing}");
        }
        assert_eq!(uses("git commit -an"), ["/r: commit -a"], "-n skips hooks");
    }

    #[test]
    fn the_text_of_a_document_is_not_run() {
        for command in ["cat >README <<'E'\nThen: git commit -am x\ngit push\nE", "cat <<-E\n\tgit push\n\tE\n"] {
            assert!(uses(command).is_empty(), "{command}");
        }
    }

    #[test]
    fn a_patch_is_applied_only_by_its_program() {
        for applied in [
            "apply_patch <<'P'\n*** Begin Patch\nP",
            "cd sub && apply_patch <<P\n*** Begin Patch\nP",
            "apply_patch '*** Begin Patch'",
            "bash -lc apply_patch <<'P'\n*** Begin Patch\nP",
            "bash -lc \"apply_patch <<'P'\n*** Begin Patch\nP\"",
            "cat <<P | apply_patch\n*** Begin Patch\nP",
            "sh <<'S'\napplypatch <<P\n*** Begin Patch\nP\nS",
        ] {
            assert_eq!(patches(applied).len(), 1, "{applied}");
        }
        for not in [
            "cat >notes.md <<'E'\napply_patch <<P\n*** Begin Patch\n*** Update File: a\nP\nE",
            "grep -rn 'apply_patch' .; echo '*** Begin Patch'",
            "echo apply_patch '*** Begin Patch'",
        ] {
            assert!(patches(not).is_empty(), "{not}");
        }
    }

    #[test]
    fn a_patch_is_applied_where_the_command_is_by_then() {
        let body = |file: &str| format!("*** Begin Patch\n*** Update File: {file}\n*** End Patch");
        let dirs = |command: &str| -> Vec<String> {
            let show = |one: PatchUse| {
                let files = one.text.map(|text| patch::files(&text).join(",")).unwrap_or_default();
                format!("{}:{files}", one.dir.display())
            };
            patches(command).into_iter().map(show).collect()
        };
        let (a, b) = (body("a"), body("b"));
        assert_eq!(dirs(&format!("apply_patch <<'P'\n{a}\nP\n")), [":a"]);
        assert_eq!(
            dirs(&format!("cd 'x y' && apply_patch <<P\n{a}\nP\ncd z; apply_patch <<P\n{b}\nP")),
            ["x y:a", "x y/z:b"]
        );
        assert_eq!(dirs(&format!("apply_patch '{a}' && cd /x; apply_patch \"{b}\"")), [":a", "/x:b"]);
        assert_eq!(dirs(&format!("bash -lc \"cd sub && apply_patch <<'P'\n{a}\nP\"")), ["sub:a"]);
        assert_eq!(dirs(&format!("cd $X && apply_patch <<'P'\n{a}\nP")), [":a"], "it could be anywhere");
        assert_eq!(dirs(&format!("cd x; cat <<'P' | apply_patch\n{a}\nP")), ["x:"]);
    }

    #[test]
    fn many_documents_end() {
        let many = "a <<b\n".repeat(30_000) + "git commit";
        assert_eq!(uses(&many), ["/r: commit"]);
    }

    #[test]
    fn no_command_is_too_odd() {
        for odd in [
            "'",
            "\"",
            "\\",
            "`",
            "$(",
            "git",
            "git -C",
            "git commit -m",
            "((((",
            "<",
            "git commit >",
            "é'",
            "a <<",
            "<<\n",
            "a <<é\né",
        ] {
            let _ = git_uses(odd, Path::new("/"));
        }
        let deep = "sh -c '".repeat(50) + "git commit";
        let _ = git_uses(&deep, Path::new("/"));
        assert!(git_uses(&("é".repeat(200_000) + "; git commit"), Path::new("/")).is_empty());
    }
}
