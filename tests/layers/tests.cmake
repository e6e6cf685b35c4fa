# A model in a sequential loop, and golden vectors; also for tests of the engine and of commands.
millrace_add_test_library(millrace_model_fixture SOURCES model_fixture.cpp LIBRARIES millrace_layers)
millrace_add_test(layers_model_test
  SOURCES rounding_noise.cpp golden_test.cpp golden_bf16_test.cpp steps_test.cpp splits_test.cpp causality_test.cpp
          maxtext_rope_test.cpp model_folder_test.cpp llmc_file_test.cpp odd_sizes_test.cpp indexer_test.cpp loss_terms_test.cpp
          streams_test.cpp output_loss_test.cpp
  LIBRARIES millrace_model_fixture nlohmann_json::nlohmann_json)
millrace_add_test(layers_experts_test
  SOURCES capacity_test.cpp expert_group_test.cpp mixture_of_experts_test.cpp router_bias_test.cpp
  LIBRARIES millrace_model_fixture nlohmann_json::nlohmann_json)
millrace_add_test(layers_units_test
  SOURCES partition_test.cpp initial_values_test.cpp rotary_test.cpp model_test.cpp scanned_layers_test.cpp
  LIBRARIES millrace_layers)
