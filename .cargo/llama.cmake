# CMake reads this file when it has read llama.cpp's first lines (`config.toml`).
#
# The crate `llama-cpp-sys-2` builds the whole of llama.cpp's `common`: parsers of some twenty chat formats, a template
# engine, the command line, downloads and an HTTP library. What it binds of that needs a quarter of the sources, and the
# linker drops the others after they have been compiled, which is a third of the time that llama.cpp takes. They are left
# out.
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

# What runs for each token; the kernels are another library's.
set(SLUICE_FAST
    llama-grammar.cpp
    llama-sampler.cpp
    llama-vocab.cpp
    unicode.cpp
    unicode-data.cpp)

# Most of llama.cpp describes models: it runs once for each prompt, and a third of the time to compile it went into
# optimising it. Cargo's development profile does without.
function(sluice_compile_quickly)
    if(NOT TARGET llama)
        return()
    endif()
    get_target_property(folder llama SOURCE_DIR)
    foreach(source IN LISTS SLUICE_FAST)
        if(EXISTS "${folder}/${source}")
            set_source_files_properties("${folder}/${source}" TARGET_DIRECTORY llama PROPERTIES COMPILE_OPTIONS -O3)
        endif()
    endforeach()
    foreach(target IN ITEMS llama llama-common)
        if(TARGET ${target})
            target_compile_options(${target} PRIVATE -O1)
        endif()
    endforeach()
endfunction()

# Its targets are known when its whole description has been read.
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.19 AND PROJECT_NAME STREQUAL "llama.cpp")
    cmake_language(DEFER CALL sluice_leave_out)
    # The name of the profile, as cargo tells it to build scripts.
    if("$ENV{PROFILE}" STREQUAL "debug" AND CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
        cmake_language(DEFER CALL sluice_compile_quickly)
    endif()
endif()
