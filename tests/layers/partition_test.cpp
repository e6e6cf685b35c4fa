#include "layers/partition.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace millrace::layers {
namespace {

TEST(Layout, ReadsWhatItPrints) {
  const std::vector<StageLayout> wanted = {
      {true, 0, 3, false}, {false, 3, 4, false}, {false, 7, 0, false}, {false, 7, 1, false}, {false, 8, 2, true}};
  const auto stages = parse_layout("E t*3 | t*4 | | t | t*2 H", {10, 0}, 5);
  EXPECT_EQ(stages, wanted);
  EXPECT_EQ(print_layout(stages), "E t*3 | t*4 | | t | t*2 H");
  EXPECT_EQ(parse_layout("E t t*2|t\tt H", {5, 0}, 2), (std::vector<StageLayout>{{true, 0, 3, false}, {false, 3, 2, true}}));
  EXPECT_EQ(parse_layout("E t*2 H", {2, 0}, 1), (std::vector<StageLayout>{{true, 0, 2, true}}));
  EXPECT_TRUE(stages[2].empty());
}

TEST(Layout, RefusesWithAClearWord) {
  struct Bad {
    const char* text;
    std::int64_t layers, stages;
    std::vector<std::string> parts;
  };
  const std::vector<Bad> table = {
      {"E t*3 | t*2 H", 6, 2, {"5 decoder layers", "the model has 6"}},
      {"E t*4 | t*3 H", 6, 2, {"7 decoder layers", "the model has 6"}},
      {"E t*3 | t*3 H", 6, 3, {"2 stages", "expected 3"}},
      {"t*3 | t*3 H", 6, 2, {"stage 0 has no E"}},
      {"E t*3 | E t*3 H", 6, 2, {"stage 1 has an E", "first stage only"}},
      {"t E t*2 | t*3 H", 6, 2, {"found E after other layers"}},
      {"E E t*3 | t*3 H", 6, 2, {"found E after other layers"}},
      {"E t*3 | t*3", 6, 2, {"stage 1 has no H"}},
      {"E t*3 H | t*3 H", 6, 2, {"stage 0 has an H"}},
      {"E t*3 | t*2 H t", 6, 2, {"found \"t\" after H"}},
      {"E t*0 | t*6 H", 6, 2, {"found \"t*0\""}},
      {"E t*-1 | t*7 H", 6, 2, {"found \"t*-1\""}},
      {"E t* | t*6 H", 6, 2, {"found \"t*\""}},
      {"E t*3x | t*3 H", 6, 2, {"found \"t*3x\""}},
      {"E t*99999999999999999999 | H", 6, 2, {"found \"t*9999"}},
      {"E x | t*6 H", 6, 2, {"found \"x\"", "expected E, t, t*N"}},
      {"", 6, 1, {"no E"}},
      {"|||", 6, 2, {"4 stages"}},
  };
  for (const Bad& bad : table) {
    SCOPED_TRACE(bad.text);
    tests::expect_error([&] { (void)parse_layout(bad.text, {bad.layers, 0}, bad.stages); }, ExitCode::config, bad.parts);
  }
}

TEST(Layout, ReadsModules) {
  const std::vector<StageLayout> wanted = {
      {true, 0, 2, false, 0}, {false, 2, 1, false, 1}, {false, 4, 0, false, 2}, {false, 6, 0, true, 0}};
  const auto stages = parse_layout("E t*2 | t M | M*2 | H", {3, 3}, 4);
  EXPECT_EQ(stages, wanted);
  EXPECT_EQ(print_layout(stages), "E t*2 | t M | M*2 | H");
  EXPECT_EQ(stages[1].end(), 4);
  EXPECT_FALSE(stages[2].empty());
  struct Bad {
    const char* text;
    ChainLength chain;
    std::int64_t stages;
    std::vector<std::string> parts;
  };
  const std::vector<Bad> table = {
      {"E t*2 H", {2, 1}, 1, {"0 modules", "the model has 1", "model.mtp_layers"}},
      {"E t*2 M H", {2, 0}, 1, {"1 modules", "the model has 0"}},
      {"E t M t H", {2, 1}, 1, {"found \"t\" after M"}},
      {"E t M | t H", {2, 1}, 2, {"found \"t\" after M"}},
      {"E t*2 | M*0 H", {2, 1}, 2, {"found \"M*0\""}},
      {"M E t*2 H", {2, 1}, 1, {"found E after other layers"}},
      {"E t*2 m H", {2, 1}, 1, {"found \"m\"", "M*N"}},
  };
  for (const Bad& bad : table) {
    SCOPED_TRACE(bad.text);
    tests::expect_error([&] { (void)parse_layout(bad.text, bad.chain, bad.stages); }, ExitCode::config, bad.parts);
  }
}

TEST(Layout, ReadsHalvesOfLayers) {
  const auto stages = parse_layout("E t a | f t a | | f | a f H", {5, 0}, 5);
  ASSERT_EQ(stages.size(), 5U);
  const StageLayout first{.embedding = true, .layer_count = 2, .ends_with_attention = true};
  const StageLayout second{.first_layer = 1, .layer_count = 3, .starts_with_ffn = true, .ends_with_attention = true};
  const StageLayout fourth{.first_layer = 3, .layer_count = 1, .starts_with_ffn = true};
  const StageLayout last{.first_layer = 4, .layer_count = 1, .head = true};
  EXPECT_EQ(stages[0], first);
  EXPECT_EQ(stages[1], second);
  EXPECT_TRUE(stages[2].empty());
  EXPECT_EQ(stages[2].first_layer, 4) << "behind the attention of layer 3";
  EXPECT_EQ(stages[3], fourth);
  EXPECT_EQ(stages[4], last) << "both halves are a whole layer";
  EXPECT_FALSE(last.divides_layers());
  EXPECT_TRUE(first.divides_layers() && second.divides_layers() && fourth.divides_layers());
  EXPECT_EQ(print_layout(stages), "E t a | f t a | | f | t H");
  EXPECT_EQ(parse_layout(print_layout(stages), {5, 0}, 5), stages);
  EXPECT_EQ(print_layout(parse_layout("E a | f a | f M H", {2, 1}, 3)), "E a | f a | f M H");
  for (const auto& [text, part] : {std::pair{"E a | t H", "found \"t\" after an a without its f"},
                                   {"E a | H", "found \"H\" after an a without its f"},
                                   {"E a a | f H", "found \"a\" after an a without its f"},
                                   {"E f | t H", "found \"f\" without an a before it"},
                                   {"E a | f f H", "found \"f\" without an a before it"},
                                   {"E t M | a f H", "found \"a\" after M"},
                                   {"E a | f", "stage 1 has no H"},
                                   {"E a*2 | f H", "found \"a*2\""}}) {
    SCOPED_TRACE(text);
    tests::expect_error([&] { (void)parse_layout(text, {2, 1}, 2); }, ExitCode::config, {part});
  }
}

TEST(UniformLayout, SpreadsEvenly) {
  EXPECT_EQ(print_layout(uniform_layout({8, 0}, 1)), "E t*8 H");
  EXPECT_EQ(print_layout(uniform_layout({8, 0}, 4)), "E t*2 | t*2 | t*2 | t*2 H");
  EXPECT_EQ(print_layout(uniform_layout({7, 0}, 3)), "E t*3 | t*2 | t*2 H");
  EXPECT_EQ(print_layout(uniform_layout({3, 0}, 3)), "E t | t | t H");
  EXPECT_EQ(print_layout(uniform_layout({3, 0}, 4)), "E t | t | t | H");
  EXPECT_EQ(print_layout(uniform_layout({3, 0}, 5)), "E | t | t | t | H");
  EXPECT_EQ(print_layout(uniform_layout({3, 2}, 1)), "E t*3 M*2 H");
  EXPECT_EQ(print_layout(uniform_layout({3, 2}, 3)), "E t | t | t M*2 H");
  EXPECT_EQ(print_layout(uniform_layout({3, 2}, 5)), "E | t | t | t | M*2 H");
  EXPECT_EQ(print_layout(uniform_layout({3, 2}, 6)), "E | t | t | t | M*2 | H");
  EXPECT_EQ(print_layout(uniform_layout({3, 2}, 7)), "E | t | t | t | M | M | H");
}

TEST(UniformLayout, IsLegalForEveryCount) {
  for (std::int64_t layers = 1; layers <= 9; ++layers) {
    for (std::int64_t stages = 1; stages <= layers + 2; ++stages) {
      const auto layout = uniform_layout({layers, 0}, stages);
      EXPECT_EQ(parse_layout(print_layout(layout), {layers, 0}, stages), layout) << layers << " layers, " << stages << " stages";
      for (const auto& stage : layout) EXPECT_FALSE(stage.empty());
    }
    for (const std::int64_t modules : {1, 3})
      for (std::int64_t stages = 1; stages <= layers + modules + 2; ++stages) {
        const auto layout = uniform_layout({layers, modules}, stages);
        EXPECT_EQ(parse_layout(print_layout(layout), {layers, modules}, stages), layout) << layers << " layers, " << stages << " stages";
        for (const auto& stage : layout) EXPECT_FALSE(stage.empty());
      }
    tests::expect_error([&] { (void)uniform_layout({layers, 0}, layers + 3); }, ExitCode::config, {"layers + 2"});
    tests::expect_error([&] { (void)uniform_layout({layers, 2}, layers + 5); }, ExitCode::config, {"2 modules", "layers + modules + 2"});
    tests::expect_error([&] { (void)uniform_layout({layers, 0}, 0); }, ExitCode::config, {"found 0 stages"});
  }
}

}  // namespace
}  // namespace millrace::layers
