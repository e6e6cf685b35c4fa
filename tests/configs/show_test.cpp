#include "configs/show.hpp"

#include <fstream>
#include <iterator>

#include "configs/identity.hpp"
#include "tests/configs/support.hpp"
#include "tests/support/paths.hpp"

namespace millrace::configs {
namespace {

TEST(Show, LoadsBackToTheSameRun) {
  const std::vector<std::vector<std::string>> runs = {
      {},
      {"train.learning_rate=0.1", "train.clip=1e-30", "train.epsilon=1e-8", "train.seed=9000000000000000000",
       "train.z_loss=0.30000000000000004"},
      {"data.text=a b,c\"d,e\\f", "sample.prompt=tab\tnew\nline \x01 \xc3\xa4 # [x]", "sample.tokens=3", "data.packing=false"},
      {"rematerialize.policy=query_proj,mlpwo", "pipeline.layout=E t*2 | t*2 H", "pipeline.ranks=2", "model.rope=llama3",
       "model.rope_original_max_position=64"},
  };
  for (const auto& overrides : runs) {
    const LoadedRun run = load_text(small_run, overrides);
    const LoadedRun again = load_text(show(run));
    EXPECT_EQ(canonical_text(run.config), canonical_text(again.config));
    EXPECT_EQ(canonical_text(again.config), canonical_text(load_text(show(again)).config));
  }
}

TEST(Show, SaysWhereEachValueComesFrom) {
  const std::string text = show(load_text(small_run, {"train.seed=5"}));
  const auto line_of = [&](const std::string& start) {
    const auto begin = text.find("\n" + start) + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_NE(line_of("seed = 5").find("# command line"), std::string::npos);
  EXPECT_NE(line_of("text = [\"corpus\"]").find("run.toml:2:6"), std::string::npos);
  EXPECT_NE(line_of("hidden_size = 32").find("tiny.toml:6:1"), std::string::npos);
  EXPECT_NE(line_of("clip = 1.0").find("# built-in"), std::string::npos);
  EXPECT_NE(line_of("head_dim = 8").find("model.hidden_size / model.heads"), std::string::npos);
}

TEST(Show, AnIncompleteRunToo) {
  LoadRequest request;
  request.complete = false;
  EXPECT_NE(show(load(request)).find("# hidden_size = 0"), std::string::npos);
}

TEST(Show, HelpNamesEveryKey) {
  const std::string help = help_text();
  for (const Key& key : schema()) EXPECT_NE(help.find(key.name + "\n"), std::string::npos) << key.name;
  EXPECT_NE(help.find("an integer from 1 to 1000000000 (steps); default 1000; identity"), std::string::npos);
}

TEST(Show, ThePageOfKeysIsUpToDate) {
  // Made anew by: millrace config keys --markdown > docs/keys.md
  std::ifstream page(tests::source_path("docs/keys.md"));
  ASSERT_TRUE(page.good());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(page), {}), key_reference());
}

}  // namespace
}  // namespace millrace::configs
