# fish completion for ckpt, made by `ckpt completion fish`
function _ckpt_completion
    set -lx COMP_WORDS (string join \n -- (commandline -opc) (commandline -ct) | string collect -N)
    _CKPT_COMPLETE=fish_complete ckpt 2>/dev/null | string match --regex .+
end

complete --command ckpt --no-files --arguments '(_ckpt_completion)'
