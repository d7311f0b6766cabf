# bash completion for ckpt, made by `ckpt completion bash`
_ckpt_completion() {
    local type value word="${COMP_WORDS[COMP_CWORD]}"
    local words=("${COMP_WORDS[@]:0:COMP_CWORD}" "${word}")
    COMPREPLY=()
    while IFS=$'\t' read -r type value; do
        case ${type} in
            '') continue ;; # nothing is offered
            path | dir) compopt -o filenames ;;
            part) compopt -o nospace ;;&
            *) [[ ${word} == [\'\"]* ]] || printf -v value '%q' "${value}" ;;
        esac
        COMPREPLY+=("${value}")
    done < <(
        IFS=$'\n'
        env COMP_WORDS="${words[*]}" _CKPT_COMPLETE=bash_complete "${COMP_WORDS[0]}" 2>/dev/null
    )
}

complete -o nosort -F _ckpt_completion ckpt
