#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/paths.hpp"

namespace millrace::tests {

using Words = std::vector<std::string>;

/// Appends arguments to a command line.
inline Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// The content of a file; empty if it does not exist.
inline std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The same for a path from the root of the source tree.
inline std::string read_source(const std::string& path) { return read_file(source_path(path)); }

/// Expects all `parts` in the text.
inline void expect_parts(const std::string& text, const Words& parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in:\n" << text;
}

/// The blocks of a page between ```language and ```, in order.
inline std::vector<std::string> code_blocks(const std::string& page, const std::string& language) {
  const std::string fence = "```" + language + "\n";
  std::vector<std::string> blocks;
  for (auto begin = page.find(fence); begin != std::string::npos; begin = page.find(fence, begin)) {
    begin += fence.size();
    blocks.push_back(page.substr(begin, page.find("```", begin) - begin));
  }
  return blocks;
}

}  // namespace millrace::tests
