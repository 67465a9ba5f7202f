
# `git dibs ...`: git's own completion calls this function. It sets words, cword, cur and prev.
_git_dibs() {
    local at=${__git_cmd_idx:-1} word
    local COMP_WORDS=(git-dibs "${words[@]:at+1}") COMP_CWORD=$((cword - at))
    _git__dibs git-dibs "$cur" "$prev"
    # Options and the names of arguments are offered after a dash only; where nothing else fits, bash completes file
    # names. Git adds no space after a completed word, so the words here bring theirs.
    local candidates=("${COMPREPLY[@]}")
    COMPREPLY=()
    for word in "${candidates[@]}"; do
        if [[ $cur != -* && $word == [-\<\[]* ]]; then continue; fi
        if [[ $prev == -* && -d $word ]]; then word+=/; fi
        if [[ $word != */ ]]; then word+=' '; fi
        COMPREPLY+=("$word")
    done
}
