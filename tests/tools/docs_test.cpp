#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace millrace::tests {
namespace {

std::string read(const std::string& path) {
  std::ifstream stream(MILLRACE_SOURCE_DIR "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(AddingALayer, ShowsTheCodeOfItsExample) {
  const auto page = read("docs/adding_a_layer.md"), example = read("examples/add_a_layer.cpp");
  const std::string fence = "```cpp\n";
  int blocks = 0;
  for (auto begin = page.find(fence); begin != std::string::npos; begin = page.find(fence, begin)) {
    begin += fence.size();
    const auto code = page.substr(begin, page.find("```", begin) - begin);
    EXPECT_NE(example.find(code), std::string::npos) << "not in examples/add_a_layer.cpp:\n" << code;
    ++blocks;
  }
  EXPECT_EQ(blocks, 5);
}

TEST(Numerics, NamesTestsThatExist) {
  const auto page = read("docs/numerics.md");
  std::string tests;
  const auto all = [&](const char* pattern, auto action) {
    const std::regex regex(pattern);
    int count = 0;
    for (std::sregex_iterator match(page.begin(), page.end(), regex), end; match != end; ++match, ++count) action((*match)[1].str());
    return count;
  };
  EXPECT_GT(all("`(tests/[a-z_/]+\\.cpp)`",
                [&](const std::string& path) {
                  EXPECT_NE(read(path), "") << path;
                  tests += read(path);
                }),
            10);
  EXPECT_GT(
      all("cpp`: ([A-Z][A-Za-z]+)", [&](const std::string& name) { EXPECT_NE(tests.find(", " + name + ")"), std::string::npos) << name; }),
      8);
}

}  // namespace
}  // namespace millrace::tests
