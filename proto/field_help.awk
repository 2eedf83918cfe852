# The comments of a message's fields as rows for C: HELP(field, "comment").
# usage: awk -v message=AllocationSpec -f field_help.awk common.proto
$1 == "message" && $2 == message { inside = 1; next }
!inside { next }
$1 == "}" { exit }
{
    comment = index($0, "//") ? substr($0, index($0, "//") + 3) : ""
    gsub(/["\\]/, "\\\\&", comment)
    if ($1 == "//") { above = above comment " "; next }
    split($0, words, " *= *[0-9]+( *[[].*[]])?;") # with its options
    count = split(words[1], declaration, " ")
    printf "HELP(%s, \"%s\")\n", declaration[count], comment == "" ? substr(above, 1, length(above) - 1) : comment
    above = ""
}
