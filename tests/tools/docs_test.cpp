#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
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

}  // namespace
}  // namespace millrace::tests
