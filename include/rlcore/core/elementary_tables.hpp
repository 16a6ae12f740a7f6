// The constants of elementary.hpp, each cut or rounded from its decimal expansion to the bits that are kept.
#pragma once

#include <array>
#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace elementary::constants {

/// Half of a number of the tables.
using word = std::uint64_t;
__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 signed_wide;

/// high 2^64 + low.
constexpr wide wide_of(word high, word low) noexcept { return (wide{high} << 64) | low; }

inline constexpr wide log2_e = wide_of(0xb8aa3b295c17f0bb, 0xbe87fed0691d3e89);   // 127 bits after the point
inline constexpr wide half_pi = wide_of(0xc90fdaa22168c234, 0xc4c6628b80dc1cd1);  // 127
inline constexpr wide ln_2 = wide_of(0x0000b17217f7d1cf, 0x79abc9e3b39803f3);     // 112
inline constexpr word ln_2_word = 0xb17217f7d1cf79ac;                             // 64

/// 2^(i / 32), 63 bits after the point
inline constexpr std::array<word, 32> powers_of_two{
    0x8000000000000000, 0x82cd8698ac2ba1d7, 0x85aac367cc487b15, 0x88980e8092da8527, 0x8b95c1e3ea8bd6e7,
    0x8ea4398b45cd53c0, 0x91c3d373ab11c336, 0x94f4efa8fef70961, 0x9837f0518db8a96f, 0x9b8d39b9d54e5539,
    0x9ef5326091a111ae, 0xa27043030c496819, 0xa5fed6a9b15138ea, 0xa9a15ab4ea7c0ef8, 0xad583eea42a14ac6,
    0xb123f581d2ac2590, 0xb504f333f9de6484, 0xb8fbaf4762fb9ee9, 0xbd08a39f580c36bf, 0xc12c4cca66709456,
    0xc5672a115506dadd, 0xc9b9bd866e2f27a3, 0xce248c151f8480e4, 0xd2a81d91f12ae45a, 0xd744fccad69d6af4,
    0xdbfbb797daf23755, 0xe0ccdeec2a94e111, 0xe5b906e77c8348a8, 0xeac0c6e7dd24392f, 0xefe4b99bdcdaf5cb,
    0xf5257d152486cc2c, 0xfa83b2db722a033a};

/// c(j), about 1 / (1 + j / 64) for j < 27 and twice that from j = 27 on, 11 bits after the point
inline constexpr std::array<std::uint16_t, 65> reciprocals{
    2048, 2016, 1986, 1956, 1928, 1900, 1872, 1846, 1820, 1796, 1771, 1748, 1725, 1702, 1680, 1659, 1638,
    1618, 1598, 1579, 1560, 1542, 1524, 1507, 1489, 1473, 1456, 2881, 2849, 2819, 2789, 2759, 2731, 2703,
    2675, 2648, 2621, 2595, 2570, 2545, 2521, 2497, 2473, 2450, 2427, 2405, 2383, 2362, 2341, 2320, 2300,
    2280, 2260, 2241, 2222, 2203, 2185, 2166, 2149, 2131, 2114, 2097, 2081, 2064, 2048};

/// -log c(j), 112 bits after the point, in two's complement
inline constexpr std::array<std::array<word, 2>, 65> log_reciprocals{
    {{0x0000000000000000, 0x0000000000000000}, {0x00000408159624d6, 0x11d27c8e8416e71f},
     {0x000007dea6c59e0a, 0x156c938df3eb88aa}, {0x00000bc42cad1abb, 0xdd3cbdf1316cf246},
     {0x00000f7518e0035c, 0x3dd83606d8909328}, {0x00001333d7f8183f, 0x4b6a4abf23bdc2c5},
     {0x00001700d30aeac0, 0xe0f46d4cef69917e}, {0x00001a956d3ecade, 0x63794c02c4af5577},
     {0x00001e3707ee3048, 0x7b42733b355e7665}, {0x0000219cfd9b9985, 0x194b6affd511b535},
     {0x00002533a618c0dd, 0x4d0079dc08d8a825}, {0x0000288c573b9367, 0xb7a758ee4f9e71ee},
     {0x00002bf061434b95, 0x226898ffc1bbb7f9}, {0x00002f60122ca2a5, 0x18a034f981a8c640},
     {0x000032b4b5b9ee02, 0xfe450b141fede8f4}, {0x000035ed12ac21b7, 0x5bebba042b644e7c},
     {0x0000392ff00f3a89, 0xd8b0d4637362773b}, {0x00003c550ef4d658, 0x238177870819af3f},
     {0x00003f84317cc414, 0xbba46f1cf69f9e04}, {0x0000429413a5eed0, 0x3094e6690c43bf27},
     {0x000045ad732eb3ed, 0xcd66fbd28b409353}, {0x000048a607efbde5, 0xebde9f6a7f262840},
     {0x00004ba78af3848a, 0x180609468ee0f65e}, {0x00004e86b200bcd9, 0x8ecf399abd8d3f00},
     {0x0000519a2fd07be6, 0x50e89d3a570933a3}, {0x0000545e366ad555, 0xc1530fe963b2f4ff},
     {0x00005756f77d657c, 0xbe9abeeb734475d9}, {0xffffa8a24899621c, 0xbf6c326244f4ba67},
     {0xffffab7e480b9e63, 0xa7302d70c32805fb}, {0xffffae340906c0b0, 0x364d9d603ef0a48d},
     {0xffffb0f136325302, 0x7cba3d3a7bbf192b}, {0xffffb3b5f8a83bc1, 0x6e10e6a8b7abc07e},
     {0xffffb65277db2be7, 0x0f744c0e8c86d193}, {0xffffb8f5dab79c35, 0x007b4dfe352c4d13},
     {0xffffbba045f8806c, 0xf08875d173434db7}, {0xffffbe391e80ca9b, 0xcb8ba3e01a1085ff},
     {0xffffc0d8c7631a54, 0xc5fc35fe27987f9f}, {0xffffc366224b3c44, 0xb32f8e605c3dd2f3},
     {0xffffc5e0901bb543, 0x5ea5640c67652622}, {0xffffc86131921052, 0x71e894f591e3bc5e},
     {0xffffcace25b8e8fe, 0xed9004b84653f99d}, {0xffffcd410a7a9896, 0x15d77a1ffe42f3b5},
     {0xffffcfb9fd367cb9, 0x9c8a5d68bd2deeda}, {0xffffd21e5aea3529, 0x68c836cc8c25cc93},
     {0xffffd4887f41d7f6, 0xf3b69d512e5cadf6}, {0xffffd6dd44f9a095, 0x3cee006bcf61a2b4},
     {0xffffd93786a5f4ee, 0x1e70decd202b2f6d}, {0xffffdb7b9dd88b5e, 0x3a0078ee9d9bf26a},
     {0xffffddc4e343adf7, 0x1c82d68aad529ba3}, {0xffffe0136ece2415, 0x4555d1ae6606cdb2},
     {0xffffe24ad8fe7826, 0xd887a951e7e0b54f}, {0xffffe48737d44f12, 0x5ef7bc3987e6c0f0},
     {0xffffe6c8a1aaa6a1, 0x223c8c7f3c9bb23f}, {0xffffe8f1ed4cda37, 0xd6793547599743db},
     {0xffffeb1feef75ca5, 0x1a3020d3a51b6eb6}, {0xffffed52bb6100dc, 0xea3ae5f05b873940},
     {0xffffef6c67ac5e33, 0x744f0d3e11b8727a}, {0xfffff1a8c682351e, 0xfabf2025b1be7e1c},
     {0xfffff3ad2b19cf59, 0xae2900180e9a192a}, {0xfffff5d468b3f1a9, 0x3815064c828a904c},
     {0xfffff7e1513d0c60, 0x88769f12d6314f8a}, {0xfffff9f276c115f1, 0x0a31b4a5ffdceea4},
     {0xfffffbe86ae1f650, 0xdbde21f5e1f7e49e}, {0xfffffe01fd594ef9, 0x87703c896fc6e23d},
     {0x0000000000000000, 0x0000000000000000}}};

/// 64 zeros and the first bits of 2 / pi
inline constexpr std::array<word, 20> two_over_pi{0,
                                                  0xa2f9836e4e441529,
                                                  0xfc2757d1f534ddc0,
                                                  0xdb6295993c439041,
                                                  0xfe5163abdebbc561,
                                                  0xb7246e3a424dd2e0,
                                                  0x06492eea09d1921c,
                                                  0xfe1deb1cb129a73e,
                                                  0xe88235f52ebb4484,
                                                  0xe99c7026b45f7e41,
                                                  0x3991d639835339f4,
                                                  0x9c845f8bbdf9283b,
                                                  0x1ff897ffde05980f,
                                                  0xef2f118b5a0a6d1f,
                                                  0x6d367ecf27cb09b7,
                                                  0x4f463f669e5fea2d,
                                                  0x7527bac7ebe5f17b,
                                                  0x3d0739f78a5292ea,
                                                  0x6bfb5fb11f8d5d08,
                                                  0x56033046fc7b6bab};

}  // namespace elementary::constants
RLCORE_END
