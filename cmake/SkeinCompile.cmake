# How every target is compiled: C++20, warnings as errors, hardening in release, no contraction of a*b+c into an
# FMA behind our back (the bits of a result are part of the product; FMAs are written out).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(SKEIN_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")

find_program(SKEIN_CCACHE ccache)
if(SKEIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SKEIN_CCACHE})
endif()

add_library(skein_compile INTERFACE)
target_compile_options(skein_compile INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off -fno-math-errno
  -fstack-protector-strong
  # clang takes what libstdc++ 12's own std::stable_sort calls for a deprecated call of ours.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # … and wants two pairs of braces around the elements of std::array, where one says the same.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-braces>)
target_include_directories(skein_compile INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g -DSKEIN_DEBUG_CHECKS")
target_compile_definitions(skein_compile INTERFACE _GLIBCXX_ASSERTIONS)
if(SKEIN_SANITIZE)
  target_compile_options(skein_compile INTERFACE -fsanitize=${SKEIN_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(skein_compile INTERFACE -fsanitize=${SKEIN_SANITIZE})
else()
  target_compile_definitions(skein_compile INTERFACE $<$<CONFIG:Release>:_FORTIFY_SOURCE=2>)
  target_link_options(skein_compile INTERFACE -pie -Wl,-z,relro,-z,now)
endif()
