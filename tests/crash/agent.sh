# Play any role: pass in the second iteration, after a patch.
request=$(cat)
step=${request#*\"step_dir\": \"}
step=${step%%\"*}
role=${request#*\"role\": \"}
role=${role%%\"*}
echo "thinking as $role" >&2
case $role in
plan) echo "1. look" >"$step/plan.md" ;;
do) mkdir "$step/files" && echo ran >"$step/files/run.log" ;;
check)
    if [ -f done.txt ]; then word=PASS pass=true; else word=FAIL pass=false; fi
    criteria="[{\"id\": \"AC1\", \"pass\": $pass}]"
    echo "{\"version\": 1, \"verdict\": \"$word\", \"criteria\": $criteria}" >"$step/verdict.json"
    echo "# $word" >"$step/scorecard.md"
    ;;
act)
    printf '%s\n' 'diff --git a/done.txt b/done.txt' 'new file mode 100644' '--- /dev/null' \
        '+++ b/done.txt' '@@ -0,0 +1 @@' '+done' >"$step/patch.diff"
    ;;
esac
echo '{"version": 1, "status": "ok", "summary": "done"}'
