# `git dibs ...`: completes as `git-dibs ...` does.
function __fish_git_dibs_complete
    set -l words (commandline -opc)
    set -l position (contains -i -- dibs $words)
    or return
    set -e words[1..$position]
    complete -C (string join ' ' -- git-dibs (string escape -- $words) '')(commandline -ct)
end
complete -c git -f -n '__fish_git_using_command dibs' -a '(__fish_git_dibs_complete)'
complete -c git -f -n __fish_git_needs_command -a dibs -d 'Reserve files before you change them'
