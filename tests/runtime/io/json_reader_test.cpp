#include "runtime/io/json_reader.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

using tests::expect_error;

constexpr const char* text = R"({"a": 3, "none": null, "list": [1, {"b": "x"}], "deep": {"c": {"d": -1.5}}, "rest": true})";

class JsonReaderTest : public ::testing::Test {
 protected:
  void refuses(const std::function<void()>& read, const std::string& message) const {
    expect_error(read, ExitCode::data, {"[io.json] f.json: " + message});
  }
  Json json_ = parse_json(text, 4, ExitCode::data, "f.json");
  JsonReader file_{json_, "f.json", ExitCode::data};
};

TEST_F(JsonReaderTest, NamesThePlaceOfWhatItRefuses) {
  refuses([&] { (void)file_.member("b"); }, "b is missing");
  refuses([&] { (void)file_.member("none"); }, "none is missing");
  refuses([&] { (void)file_.integer("a", 4, 5); }, "a = 3, expected an integer from 4 to 5");
  refuses([&] { (void)file_.member("a").count(2); }, "a = 3, expected an integer from 0 to 2");
  refuses([&] { (void)file_.member("list").at(1).member("b").boolean(); }, "list[1].b = \"x\", expected true or false");
  refuses([&] { (void)file_.member("deep").member("c").number("d", 0, 1); }, "deep.c.d = -1.5, expected a number from 0 to 1");
  refuses([&] { (void)file_.member("deep").member("c").member("d").count(); }, "deep.c.d = -1.5, expected an integer from 0");
  refuses([&] { (void)file_.member("list").object(); }, "list = [1,{\"b\":\"x\"}], expected an object");
  refuses([&] { (void)file_.member("a").elements(); }, "a = 3, expected an array");
  refuses([&] { (void)file_.size("none", 9); }, "none = null, expected an integer from 1 to 9");
  refuses([&] { (void)file_.member("a").find("x"); }, "a = 3, expected an object");
  refuses([&] { (void)file_.member("list").at(1).only({"c"}); }, "list[1].b is not supported");
  refuses([&] { file_.refuse("expected nothing"); }, "the file = {\"a\":3");
}

TEST_F(JsonReaderTest, ReturnsNothingForWhatIsMissingOrNull) {
  EXPECT_EQ(file_.integer("none", 0, 9), std::nullopt);
  EXPECT_EQ(file_.integer("a", 0, 9), 3);
  EXPECT_FALSE(file_.object("b").has_value());
  EXPECT_FALSE(file_.optional_member("none").has_value());
  EXPECT_TRUE(file_.has("none"));
  EXPECT_FALSE(file_.has("b"));
  EXPECT_EQ(file_.size("none", 9, 7), 7);
}

TEST_F(JsonReaderTest, WarnsOfWhatWasNotRead) {
  (void)file_.find("a");
  (void)file_.has("none");
  const auto deep = file_.object("deep");
  std::vector<std::string> warnings;
  const char* const ignored[] = {"rest"};
  file_.warn_of_the_rest(warnings, ignored);
  EXPECT_EQ(warnings, std::vector<std::string>{"f.json: list is not known and not used"});
  deep->warn_of_the_rest(warnings);
  EXPECT_EQ(warnings.back(), "f.json: deep.c is not known and not used");
}

// 2^63 fits an unsigned number of the library and no integer here.
TEST_F(JsonReaderTest, ChecksTheRangeOfUnsignedNumbers) {
  const Json large = parse_json("[9223372036854775808, -1, 1e300]", 1, ExitCode::data, "f.json");
  const JsonReader list(large, "f.json", ExitCode::data);
  EXPECT_EQ(list.at(0).count(), 9223372036854775808U);
  refuses([&] { (void)list.at(0).integer(-10, INT64_MAX); }, "[0] = 9223372036854775808, expected an integer");
  EXPECT_EQ(list.at(1).integer(-10, INT64_MAX), -1);
  refuses([&] { (void)list.at(2).integer(-10, INT64_MAX); }, "[2] = 1e+300, expected an integer");
}

TEST(ParseJson, RefusesWhatIsHostile) {
  const auto refuses = [](std::string_view bad, const std::string& message) {
    expect_error([&] { (void)parse_json(bad, 2, ExitCode::model, "f.json"); }, ExitCode::model, {"[io.json] f.json: " + message});
  };
  refuses(R"({"a": 1, "b": {"a": 2}, "a": 3})", "the key 'a' appears twice");
  refuses("[[[]]]", "JSON nested deeper than 2");
  refuses(std::string_view("{}\0{}", 5), "a NUL byte in JSON");
  refuses("[\"\xff\"]", "not JSON: ");
  refuses("{\"a\": 1} x", "not JSON: line 1, column 10: ");
  refuses("{", "not JSON: line 1, column 2: unexpected end of input, expected string literal");
}

}  // namespace
}  // namespace millrace::runtime
