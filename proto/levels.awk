# What came after level 1 as rows for C: FIELD_LEVEL(message, number, level) and VALUE_LEVEL(enum,
# number, level), by the names that protoc-c gives to descriptors. A member takes the level from the
# option of ckpt/v1/level.proto.
# usage: awk -f levels.awk FILE.proto...
function lower(name, text, i, letter, was_upper) { # as protoc-c: AllocationSpec is allocation_spec
    text = ""
    was_upper = 1
    for (i = 1; i <= length(name); i++) {
        letter = substr(name, i, 1)
        if (letter ~ /[A-Z]/) {
            text = text (was_upper ? "" : "_") tolower(letter)
            was_upper = 1
        } else {
            text = text letter
            was_upper = 0
        }
    }
    return text
}
function symbol(text, i) { # of the message or enum that is being read
    text = package
    for (i = 1; i <= depth; i++)
        if (kind[i] == "message" || kind[i] == "enum")
            text = text "__" lower(named[i])
    return text
}
function statement(text, end, number, level, words) {
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    if (end == "{") {
        split(text, words, " ")
        kind[++depth] = words[1]
        named[depth] = words[2]
    } else if (end == "}") {
        depth--
    } else if (text ~ /^package /) {
        package = substr(text, 9)
        gsub(/\./, "__", package)
    } else if (match(text, /\(ckpt\.v1\.(value_)?level\) *= *[0-9]+/)) {
        level = substr(text, RSTART, RLENGTH)
        number = substr(text, 1, RSTART)
        sub(/.*= */, "", level)
        match(number, /= *-?[0-9]+/)
        number = substr(number, RSTART, RLENGTH)
        sub(/= */, "", number)
        printf "%s(%s, %s, %s)\n", text ~ /value_level/ ? "VALUE_LEVEL" : "FIELD_LEVEL", symbol(), number, level
    }
}
{
    sub(/\/\/.*/, "")
    rest = rest " " $0
    while (match(rest, /[;{}]/)) {
        before = substr(rest, 1, RSTART - 1)
        mark = substr(rest, RSTART, 1)
        rest = substr(rest, RSTART + 1)
        statement(before, mark)
    }
}
