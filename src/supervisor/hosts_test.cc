// SPDX-License-Identifier: Apache-2.0
//
// Ranks on hosts by name, and where they find their supervisor.
#include "supervisor/hosts.h"

#include <gtest/gtest.h>

#include "supervisor/endpoint.h"
#include "supervisor/launcher.h"

namespace skein::supervisor {
namespace {

std::string Shown(std::string_view text, const comm::Places& mesh) {
  const auto hosts = ParseHosts(text, mesh);
  if (!hosts.ok()) return "refused";
  std::string shown;
  for (const HostShare& host : *hosts) shown += host.name + ":" + std::to_string(host.ranks) + " ";
  return shown;
}

// Tensor ranks on two hosts would talk over the network in every layer, though the stages would fit.
TEST(Hosts, StagesStayTogetherWhereTheyFit) {
  EXPECT_EQ(Shown("a,b", {1, 1, 1, 4}), "a:2 b:2 ");
  EXPECT_EQ(Shown("a,b", {1, 3, 1, 2}), "a:4 b:2 ");
  EXPECT_EQ(Shown("a,b,c", {1, 2, 1, 2}), "a:2 b:1 c:1 ");
  EXPECT_EQ(Shown("a:1,b:3", {1, 2, 1, 2}), "a:1 b:3 ");
  EXPECT_EQ(Shown("10.77.0.1", {1, 1, 1, 1}), "10.77.0.1:1 ");
  EXPECT_EQ(HostOfRanks({{"a", 1}, {"b", 2}}), (std::vector<int>{0, 1, 1}));
}

// A word with other characters would be an option of mpirun or ssh, a wrong number a job that never starts.
TEST(Hosts, RefusesWhatIsNoListOfHosts) {
  const comm::Places four{1, 2, 1, 2};
  for (const char* text : {"", ",", "a,", "-x", "a b", "a;b", "a:0", "a:-1", "a:4x", "a:2,b", "a:1,b:1", "a,a", "a:9999", "a,b,c,d,e", "--host", "$(x)"}) {
    EXPECT_EQ(Shown(text, four), "refused") << text;
  }
}

// Ranks of a Slurm job would look for the server on their own host.
TEST(Hosts, ReadsTheLastHostOfASlurmJob) {
  const std::pair<const char*, const char*> cases[] = {{"n1", "n1"}, {"n1,n2", "n2"}, {"n[1-4]", "n4"}, {"a1,n[01-04,07]", "n07"}, {"n[1-2],m3", "m3"}, {"n[1", ""}, {"", ""}, {"]", ""}};
  for (const auto& [list, last] : cases) EXPECT_EQ(LastOfNodeList(list), last) << list;
}

TEST(Endpoint, RanksFindAnAddress) {
  auto endpoint = ListenAt("127.0.0.1");
  ASSERT_TRUE(endpoint.ok()) << endpoint.status().message();
  EXPECT_TRUE(endpoint->name.starts_with("tcp:127.0.0.1:")) << endpoint->name;
  EXPECT_TRUE(ConnectTo(endpoint->name).ok());
  const std::string name = endpoint->name;
  EXPECT_EQ(ListenAt(name.substr(4)).status().code(), Code::kUnavailable) << "taken";
  endpoint->listener.Close();
  EXPECT_EQ(ConnectTo(name).status().code(), Code::kUnavailable);
  const auto towards = AddressTowards({"127.0.0.1"});
  ASSERT_TRUE(towards.ok());
  EXPECT_EQ(*towards, "127.0.0.1");
  for (const char* address : {"", ":", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:123456", "192.0.2.1"}) {
    EXPECT_EQ(ListenAt(address).status().code(), Code::kInvalidArgument) << address;
  }
  for (const char* bad : {"", "tcp:", "tcp:127.0.0.1"}) EXPECT_FALSE(ConnectTo(bad).ok()) << bad;
}

// A secret on a command line is everybody's on that machine.
TEST(Launcher, SecretsAreNotArguments) {
  const auto mpirun = MpirunFor({}, 3, {{{"a", 1}, {"b", 2}}, "there", {"SECRET"}});
  if (!mpirun.ok()) GTEST_SKIP() << "no mpirun here";
  std::string all;
  for (const std::string& argument : mpirun->arguments) all += argument + " ";
  EXPECT_NE(all.find("--map-by slot --host a:1,b:2 -x SECRET there rank"), std::string::npos) << all;
}

}  // namespace
}  // namespace skein::supervisor
