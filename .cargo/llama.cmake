# The crate `llama-cpp-sys-2` builds the whole of llama.cpp's `common`: parsers of some twenty chat formats, a template
# engine, the command line, downloads and an HTTP library. What it binds of that needs a quarter of the sources, and the
# linker drops the others after they have been compiled, which is a third of the time that llama.cpp takes. CMake reads
# this file when it has read llama.cpp's first lines (`config.toml`), and leaves them out.
#
# A source that is needed and not in the list is an error of the linker, in every binary with the embedded model. A list
# that no longer fits llama.cpp changes nothing: all is built, as without this file.

set(SLUICE_NEEDED
    common.cpp
    fit.cpp
    json-schema-to-grammar.cpp
    json-schema.cpp
    json.cpp
    log.cpp
    ngram-cache.cpp
    ngram-map.cpp
    ngram-mod.cpp
    reasoning-budget.cpp
    sampling.cpp
    speculative.cpp
    trie.cpp
    unicode.cpp)

function(sluice_leave_out)
    if(NOT TARGET llama-common OR NOT TARGET cpp-httplib)
        return()
    endif()
    get_target_property(sources llama-common SOURCES)
    foreach(source IN LISTS SLUICE_NEEDED)
        if(NOT source IN_LIST sources)
            return()
        endif()
    endforeach()
    set_target_properties(llama-common PROPERTIES SOURCES "${SLUICE_NEEDED}")
    # Only what is left out asks for pages.
    get_target_property(libraries llama-common LINK_LIBRARIES)
    list(FILTER libraries EXCLUDE REGEX "cpp-httplib")
    set_target_properties(llama-common PROPERTIES LINK_LIBRARIES "${libraries}")
    set_target_properties(cpp-httplib PROPERTIES EXCLUDE_FROM_ALL TRUE)
endfunction()

# Its targets are known when its whole description has been read.
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.19 AND PROJECT_NAME STREQUAL "llama.cpp")
    cmake_language(DEFER CALL sluice_leave_out)
endif()
