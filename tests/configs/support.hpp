#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "configs/load.hpp"
#include "configs/schema.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::configs {

inline const std::string presets_folder = tests::source_path("configs/models");

/// The smallest valid run.
inline constexpr std::string_view small_run = "model.preset = \"tiny\"\ndata.text = \"corpus\"\n";

/// A request for one file of the test's folder, with the presets of the source tree.
inline LoadRequest request_for(const std::string& file, std::vector<std::string> overrides = {}) {
  LoadRequest request;
  request.files = {file};
  request.overrides = std::move(overrides);
  request.presets = presets_folder;
  return request;
}

/// Loads `text` as a file called run.toml.
inline LoadedRun load_text(std::string_view text, std::vector<std::string> overrides = {}) {
  const tests::TemporaryFolder folder;
  return load(request_for(folder.write("run.toml", text), std::move(overrides)));
}

}  // namespace millrace::configs
