# Targets for model files. Like the other targets they compile the readers for the fuzzer. The list of a model's parameters comes from programs, which
# need kernels as well; those are linked without instrumentation (clang would take minutes to compile them). Seeds: config.json of tests/golden/*, and
# small files that millrace convert wrote. Limits for a run: -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512.
file(GLOB_RECURSE FUZZED_MODEL_SOURCES CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/layers/*.cpp ${PROJECT_SOURCE_DIR}/runtime/io/*.cpp ${PROJECT_SOURCE_DIR}/runtime/checkpoint/*.cpp ${PROJECT_SOURCE_DIR}/runtime/program/*.cpp
  ${PROJECT_SOURCE_DIR}/runtime/passes/*.cpp)
add_library(millrace_fuzzed_models STATIC ${FUZZED_MODEL_SOURCES})
target_compile_options(millrace_fuzzed_models PUBLIC -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -g1)
target_link_options(millrace_fuzzed_models PUBLIC -fsanitize=address,undefined)
target_link_libraries(millrace_fuzzed_models PUBLIC millrace_options millrace_kernels fmt::fmt nlohmann_json::nlohmann_json)

foreach(name config_json_fuzz llmc_model_fuzz safetensors_fuzz)
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE millrace_fuzzed_models)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
