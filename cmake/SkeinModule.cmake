# skein_module(NAME SOURCES … DEPS … [PACKAGES …] [TESTS …])
#
# One library `skein_NAME` of a folder below src/. DEPS are the modules whose headers it may include (tests/style
# compares the line with the real includes), PACKAGES are outside libraries, TESTS are files of unit tests beside
# the sources; they become one program `NAME_test` in ctest.
function(skein_module name)
  cmake_parse_arguments(module "" "" "SOURCES;DEPS;PACKAGES;TESTS" ${ARGN})
  add_library(skein_${name} STATIC ${module_SOURCES})
  target_link_libraries(skein_${name} PUBLIC skein_compile ${module_PACKAGES})
  foreach(dependency IN LISTS module_DEPS)
    target_link_libraries(skein_${name} PUBLIC skein_${dependency})
  endforeach()
  if(SKEIN_TESTS AND module_TESTS)
    add_executable(${name}_test ${module_TESTS})
    target_link_libraries(${name}_test PRIVATE skein_${name} GTest::gtest GTest::gtest_main)
    add_test(NAME ${name}_test COMMAND ${name}_test)
    set_tests_properties(${name}_test PROPERTIES
      ENVIRONMENT "SKEIN_SOURCE_DIR=${CMAKE_SOURCE_DIR}" LABELS unit)
  endif()
endfunction()
