#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "actors/debug/cut_lines.hpp"
#include "actors/debug/tensor_slice.hpp"
#include "actors/debug/tensor_text.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"

namespace millrace::tests {
namespace {

using actors::parse_slice;

/// The numbers in memory of the elements of a slice, read off the printed rows of a tensor that counts its elements.
std::string printed(const std::string& slice, std::initializer_list<kernels::Dimension> sizes, std::size_t width = 0) {
  const kernels::Shape shape(sizes);
  std::vector<std::int32_t> counting(static_cast<std::size_t>(shape.elements()));
  std::iota(counting.begin(), counting.end(), 0);
  return actors::describe({"x", "here", kernels::make_tensor(counting.data(), kernels::DType::i32, shape)}, slice, width);
}

TEST(DebugText, SlicesAsNumpyDoes) {
  const kernels::Shape shape{4, 3, 5};
  const auto sizes = [&](const std::string& text) { return parse_slice(text, "x", shape).sizes(); };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes("1"), (Sizes{3, 5}));
  EXPECT_EQ(sizes("-1, :2"), (Sizes{2, 5}));
  EXPECT_EQ(sizes("::3, 0, 1:100"), (Sizes{2, 4}));
  EXPECT_EQ(sizes("..., -2:"), (Sizes{4, 3, 2}));
  EXPECT_EQ(sizes("3:1"), (Sizes{0, 3, 5}));
  EXPECT_EQ(sizes("-100:-3"), (Sizes{1, 3, 5}));
  EXPECT_EQ(sizes("1, 1, 1"), Sizes{});
  EXPECT_EQ(sizes("1,"), (Sizes{3, 5}));
  EXPECT_EQ(actors::element_of(parse_slice("-1, 1, 2", "x", shape), "x", shape), 3 * 15 + 5 + 2);
}

TEST(DebugText, ErrorsOfSlicesNameTheShape) {
  const kernels::Shape shape{4, 3};
  const auto message = [&](const std::string& text) -> std::string {
    try {
      (void)parse_slice(text, "layers.0.mlp", shape);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "accepted";
  };
  for (const auto& [text, expected] :
       std::vector<std::pair<std::string, std::string>>{{"4", "layers.0.mlp[4] of shape [4, 3]: index 4 of axis 0, expected -4 to 3"},
                                                        {"0, -4", "of shape [4, 3]: index -4 of axis 1, expected -3 to 2"},
                                                        {"0, 0, 0", "of shape [4, 3]: 3 indexes, expected at most 2"},
                                                        {"x", "\"x\", expected an index"},
                                                        {"", "\"\", expected an index"},
                                                        {"0:1:2:3", "expected first:end or first:end:stride"},
                                                        {"::-1", "stride -1, expected 1 or more"},
                                                        {"99999999999999999999", "expected an index"}})
    EXPECT_NE(message(text).find(expected), std::string::npos) << message(text);
}

TEST(DebugText, ShowsTheElementsOfASlice) {
  const auto text = printed("1:3, -2:", {4, 6});
  EXPECT_NE(text.find("x[1:3, -2:]  i32 [2, 2] of [4, 6]  here"), std::string::npos) << text;
  EXPECT_NE(text.find("                  4          5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  [1, :]         10         11\n  [2, :]         16         17\n"), std::string::npos) << text;
  EXPECT_NE(printed("2, :, 1", {3, 2, 2}).find("  [2, :, 1]          9         11\n"), std::string::npos) << printed("2, :, 1", {3, 2, 2});
  EXPECT_NE(printed("3, 5", {4, 6}).find("x[3, 5]  23  i32, element of [4, 6]"), std::string::npos);
  EXPECT_NE(printed(":", {1000, 2}).find("  … 800 more rows\n"), std::string::npos) << printed(":", {1000, 2});
}

TEST(DebugText, LeavesOutColumnsThatDoNotFit) {
  const auto narrow = printed("0", {2, 100}, 80);
  EXPECT_NE(narrow.find("  … 95 more\n"), std::string::npos) << narrow;
  for (std::size_t begin = 0; begin < narrow.size();) {
    const auto end = narrow.find('\n', begin);
    EXPECT_LE(end - begin, 82U) << narrow;  // the mark has three bytes
    begin = end + 1;
  }
  EXPECT_EQ(printed("0", {2, 6}, 80).find("more"), std::string::npos) << printed("0", {2, 6}, 80);
  EXPECT_NE(printed("0", {2, 100}).find(" 99\n"), std::string::npos);
}

TEST(DebugText, CutsLinesByCharacters) {
  EXPECT_EQ(actors::cut_lines("12345\n123456\n→→→→→→\n\n", 5), "12345\n1234…\n→→→→…\n\n");
  EXPECT_EQ(actors::cut_lines("no end of line", 5), "no e…");
  EXPECT_EQ(actors::cut_lines("12345\n", 0), "12345\n");
}

TEST(DebugText, CountsNouns) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(2U, "microbatch"), "2 microbatches");
  EXPECT_EQ(counted(3, "process"), "3 processes");
  EXPECT_EQ(counted(3, "copy"), "3 copies");
  EXPECT_EQ(counted(3, "key"), "3 keys");
  EXPECT_EQ(noun_for(1, "copy"), "copy");
}

}  // namespace
}  // namespace millrace::tests
