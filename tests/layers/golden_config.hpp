#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "layers/formats/config_file.hpp"
#include "tests/support/paths.hpp"

// The config.json of golden models, which tests of its keys change and read.
namespace millrace::layers {

/// The config.json of a folder of tests/golden, such as "hf_llama".
inline nlohmann::json golden_config(const std::string& folder) {
  const std::string path = tests::source_path("tests/golden/" + folder + "/config.json");
  std::ifstream stream(path);
  EXPECT_TRUE(stream.is_open()) << path;
  return nlohmann::json::parse(stream);
}

/// The config.json of a folder of tests/golden that transformers wrote, without its prefix "hf_".
inline nlohmann::json golden_hugging_face(const std::string& name) { return golden_config("hf_" + name); }

/// Reads a config.json with these keys. Throws what parse_config_file() throws.
inline ConfigFile parse(const nlohmann::json& config) { return parse_config_file(config.dump(), "config.json"); }

}  // namespace millrace::layers
