#compdef ckpt
# zsh completion for ckpt, made by `ckpt completion zsh`
_ckpt_completion() {
    local type value text
    local -a plain shown parts paths dirs
    while IFS=$'\t' read -r type value text; do
        case ${type} in
            '') ;; # nothing is offered
            path) paths+=("${value}") ;;
            dir) dirs+=("${value}") ;;
            part) parts+=("${value}") ;;
            *) plain+=("${value}"); shown+=("${value}${text:+  -- ${text}}") ;;
        esac
    done < <(
        COMP_WORDS="${(F)words[1,CURRENT-1]}"$'\n'"${PREFIX}" \
            _CKPT_COMPLETE=zsh_complete "${words[1]}" 2>/dev/null
    )
    (( ${#plain} )) && compadd -V commands -l -d shown -a plain
    (( ${#parts} )) && compadd -S '' -a parts
    (( ${#paths} )) && compadd -a paths # not -f: a prefix is no file, and would get no space
    (( ${#dirs} )) && compadd -f -q -S / -a dirs
}

if [[ ${funcstack[1]} == _ckpt ]]; then # found in fpath: all of this is the function
    _ckpt_completion "$@"
else
    compdef _ckpt_completion ckpt
fi
