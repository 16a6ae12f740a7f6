// The standard library's names in the headers: each comes from a header that is included, not by luck from another one,
// which our compilers' library accepts and somebody else's may not.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "layering/layers.hpp"

namespace layering {

/// The names of namespace std that the library uses, by the header that declares them; some have several.
inline const std::map<std::string, std::string>& names_of_headers() {
  static const std::map<std::string, std::string> names = {
      {"algorithm",
       "adjacent_find all_of any_of binary_search clamp copy copy_backward copy_if copy_n count "
       "count_if equal equal_range fill fill_n find find_end find_first_of find_if for_each "
       "for_each_n generate includes inplace_merge is_sorted lexicographical_compare lower_bound "
       "make_heap max max_element merge min min_element minmax minmax_element mismatch move_backward "
       "next_permutation none_of nth_element partial_sort partition partition_point pop_heap "
       "push_heap ranges remove remove_copy_if remove_if replace replace_if reverse rotate search "
       "set_difference set_intersection set_union shuffle sort stable_sort transform unique "
       "unique_copy upper_bound"},
      {"array", "array get"},
      {"atomic",
       "atomic atomic_flag atomic_ref atomic_thread_fence memory_order memory_order_acq_rel "
       "memory_order_acquire memory_order_relaxed memory_order_release memory_order_seq_cst"},
      {"bit",
       "bit_cast bit_ceil bit_floor bit_width byteswap countl_one countl_zero countr_one countr_zero "
       "endian has_single_bit popcount rotl rotr"},
      {"cctype", "isalnum isalpha isdigit islower isprint ispunct isspace isupper isxdigit tolower toupper"},
      {"charconv", "chars_format from_chars to_chars"},
      {"chrono", "chrono micro milli nano ratio"},
      {"cmath",
       "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh double_t erf erfc exp "
       "exp2 expm1 fabs float_t floor fma fmax fmin fmod fpclassify frexp hypot ilogb isfinite isinf "
       "isnan isnormal ldexp lgamma llrint log log10 log1p log1pf log2 logb lrint lround modf nan "
       "nearbyint nextafter nexttoward pow remainder rint round scalbn signbit sin sinh sqrt tan "
       "tanh tgamma trunc"},
      {"complex", "complex"},
      {"concepts",
       "assignable_from constructible_from convertible_to copy_constructible copyable "
       "default_initializable derived_from destructible equality_comparable floating_point integral "
       "invocable movable move_constructible predicate regular same_as semiregular signed_integral "
       "swappable totally_ordered unsigned_integral"},
      {"condition_variable", "condition_variable condition_variable_any cv_status"},
      {"csignal", "sig_atomic_t"},
      {"cstdarg", "va_list"},
      {"cstddef", "byte max_align_t nullptr_t ptrdiff_t size_t to_integer"},
      {"cstdint",
       "int16_t int32_t int64_t int8_t int_fast32_t intmax_t intptr_t uint16_t uint32_t uint64_t "
       "uint8_t uint_fast32_t uintmax_t uintptr_t"},
      {"cstdio",
       "FILE fclose feof ferror fflush fgetc fgets fopen fprintf fputc fputs fread fseek ftell "
       "fwrite perror printf putchar puts remove rename rewind setvbuf size_t snprintf sscanf "
       "tmpfile vfprintf vprintf vsnprintf"},
      {"cstdlib",
       "_Exit abort abs aligned_alloc atexit atoi atoll calloc div exit free getenv lldiv malloc qsort "
       "quick_exit realloc setenv size_t strtod strtof strtol strtoll strtoul strtoull"},
      {"cstring",
       "memchr memcmp memcpy memmove memset size_t strchr strcmp strcpy strerror strlen strncmp "
       "strncpy strrchr strstr"},
      {"ctime", "strftime time time_t tm"},
      {"deque", "deque"},
      {"exception",
       "current_exception exception exception_ptr make_exception_ptr nested_exception "
       "rethrow_exception set_terminate terminate throw_with_nested uncaught_exception "
       "uncaught_exceptions"},
      {"filesystem", "filesystem"},
      {"fstream", "filebuf fstream ifstream ios ofstream streamoff streamsize"},
      {"functional",
       "bind_front cref equal_to function greater greater_equal hash identity invoke less less_equal "
       "logical_or minus multiplies not_equal_to plus ref reference_wrapper"},
      {"future", "async future packaged_task promise shared_future"},
      {"initializer_list", "initializer_list"},
      {"iterator",
       "advance back_inserter begin cbegin cend contiguous_iterator data distance empty end "
       "forward_iterator forward_iterator_tag front_inserter input_iterator input_iterator_tag "
       "inserter istreambuf_iterator iter_value_t iterator_traits make_move_iterator "
       "make_reverse_iterator next ostream_iterator prev random_access_iterator "
       "random_access_iterator_tag rbegin rend reverse_iterator size ssize"},
      {"limits", "float_denorm_style numeric_limits"},
      {"list", "list"},
      {"locale", "locale"},
      {"map", "erase_if get map multimap"},
      {"memory",
       "addressof align allocator allocator_traits assume_aligned construct_at default_delete "
       "destroy_at destroy_n dynamic_pointer_cast enable_shared_from_this make_shared make_unique "
       "make_unique_for_overwrite pointer_traits shared_ptr static_pointer_cast to_address "
       "uninitialized_copy unique_ptr weak_ptr"},
      {"mutex",
       "adopt_lock call_once defer_lock lock_guard mutex once_flag recursive_mutex scoped_lock "
       "timed_mutex try_to_lock unique_lock"},
      {"new",
       "align_val_t bad_alloc bad_array_new_length hardware_destructive_interference_size launder "
       "nothrow"},
      {"numbers", "numbers"},
      {"numeric",
       "accumulate adjacent_difference exclusive_scan gcd inclusive_scan inner_product iota lcm "
       "midpoint partial_sum reduce transform_reduce"},
      {"optional", "bad_optional_access make_optional nullopt optional"},
      {"queue", "priority_queue queue"},
      {"random",
       "mt19937 mt19937_64 normal_distribution random_device uniform_int_distribution "
       "uniform_real_distribution"},
      {"ranges", "ranges"},
      {"set", "erase_if multiset set"},
      {"shared_mutex", "shared_lock shared_mutex"},
      {"span", "as_bytes as_writable_bytes dynamic_extent span"},
      {"sstream", "istringstream ostringstream stringstream"},
      {"stack", "stack"},
      {"stdexcept",
       "domain_error invalid_argument length_error logic_error out_of_range overflow_error "
       "range_error runtime_error underflow_error"},
      {"string",
       "basic_string char_traits erase getline size_t ssize stod stof stoi stol stoll stoul stoull "
       "string to_string u16string u32string u8string wstring"},
      {"string_view", "basic_string_view string_view u32string_view u8string_view"},
      {"system_error",
       "errc error_category error_code error_condition generic_category make_error_code "
       "system_category system_error"},
      {"thread", "jthread this_thread thread"},
      {"tuple",
       "apply forward_as_tuple get ignore make_tuple tie tuple tuple_cat tuple_element "
       "tuple_element_t tuple_size tuple_size_v"},
      {"type_traits",
       "add_const_t add_lvalue_reference_t add_pointer_t alignment_of_v bool_constant common_type_t "
       "conditional conditional_t conjunction_v decay_t disjunction_v enable_if_t extent_v "
       "false_type has_unique_object_representations_v integral_constant invoke_result_t "
       "is_abstract_v is_arithmetic_v is_array_v is_assignable_v is_base_of_v is_class_v is_const_v "
       "is_constant_evaluated is_constructible_v is_convertible_v is_copy_constructible_v "
       "is_default_constructible_v is_empty_v is_enum_v is_final_v is_floating_point_v is_function_v "
       "is_integral is_integral_v is_invocable_r_v is_invocable_v is_lvalue_reference_v "
       "is_move_constructible_v is_nothrow_constructible_v is_nothrow_invocable_v "
       "is_nothrow_move_constructible_v is_object_v is_pointer is_pointer_v is_reference_v "
       "is_rvalue_reference_v is_same is_same_v is_signed_v is_standard_layout_v is_trivial_v "
       "is_trivially_copyable_v is_trivially_default_constructible_v is_trivially_destructible_v "
       "is_unsigned_v is_void_v make_signed_t make_unsigned_t negation_v rank_v remove_all_extents_t "
       "remove_const_t remove_cv_t remove_cvref_t remove_extent_t remove_pointer_t "
       "remove_reference_t remove_volatile_t true_type type_identity type_identity_t "
       "underlying_type_t void_t"},
      {"typeindex", "type_index"},
      {"typeinfo", "type_info"},
      {"unordered_map", "erase_if unordered_map unordered_multimap"},
      {"unordered_set", "unordered_multiset unordered_set"},
      {"utility",
       "as_const cmp_equal cmp_greater cmp_less cmp_less_equal declval exchange forward get in_place "
       "in_place_index in_place_t in_place_type in_place_type_t in_range index_sequence "
       "index_sequence_for integer_sequence make_index_sequence make_integer_sequence make_pair move "
       "move_if_noexcept pair piecewise_construct piecewise_construct_t size_t swap unreachable"},
      {"variant",
       "bad_variant_access get get_if holds_alternative monostate variant variant_alternative_t "
       "variant_size_v visit"},
      {"vector", "erase erase_if ssize vector"},
      {"version", "version"},
  };
  return names;
}

/// The headers that declare std::`name`.
inline std::set<std::string> headers_of(const std::string& name) {
  static const auto all = [] {
    std::map<std::string, std::set<std::string>> headers;
    for (const auto& [header, names] : names_of_headers()) {
      std::istringstream in(names);
      for (std::string each; in >> each;) headers[each].insert(header);
    }
    // Every container comes with these.
    for (const char* header : {"array", "deque", "list", "map", "queue", "set", "span", "string", "string_view",
                               "vector", "unordered_map", "utility", "algorithm", "variant", "functional", "memory"})
      headers["initializer_list"].insert(header);
    for (const char* header : {"map", "set", "queue"}) headers["less"].insert(header);
    for (const char* header : {"memory", "optional", "string", "string_view", "variant", "unordered_map"})
      headers["hash"].insert(header);
    return headers;
  }();
  const auto found = all.find(name);
  return found == all.end() ? std::set<std::string>() : found->second;
}

/// `text` without comments and without what is inside quotes.
inline std::string code_of(std::string_view text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("//")) {
      i += std::min(rest.find('\n'), rest.size() - 1);
      code += '\n';
    } else if (rest.starts_with("/*")) {
      i += std::min(rest.find("*/", 2), rest.size() - 2) + 1;
    } else if (rest.starts_with("R\"")) {
      const std::string end = ")" + std::string(rest.substr(2, rest.find('(') - 2)) + "\"";
      i += std::min(rest.find(end), rest.size() - end.size()) + end.size() - 1;
    } else if (text[i] == '"' ||
               (text[i] == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
      const char quote = text[i];
      for (++i; i < text.size() && text[i] != quote; ++i) i += text[i] == '\\';
    } else {
      code += text[i];
    }
  }
  return code;
}

/// The identifiers that follow `scope`, such as "std::".
inline std::set<std::string> names_in(const std::string& code, const std::string& scope) {
  std::set<std::string> names;
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = code.find(scope); at != std::string::npos; at = code.find(scope, at + 1)) {
    if (at > 0 && in_word(code[at - 1])) continue;
    std::size_t end = at + scope.size();
    while (end < code.size() && in_word(code[end])) ++end;
    names.insert(code.substr(at + scope.size(), end - at - scope.size()));
  }
  return names;
}

/// One line for every name of std, nlohmann and fmt in a header below `top` whose header is not included, be it by
/// another header of ours.
inline strings undeclared_names(const fs::path& top) {
  std::map<std::string, header> all;
  for (const auto& entry : fs::recursive_directory_iterator(top))
    if (entry.is_regular_file()) all[fs::relative(entry.path(), top).generic_string()] = read_header(entry.path());
  strings faults;
  for (const auto& [file, content] : all) {
    if (!file.ends_with(".hpp")) continue;  // an .inc belongs to who includes it
    std::set<std::string> seen, included;
    strings open = {file};
    while (!open.empty()) {
      const std::string next = open.back();
      open.pop_back();
      if (!seen.insert(next).second || !all.contains(next)) continue;
      for (const include_line& include : all.at(next).includes) {
        if (include.quoted && include.path.starts_with("rlcore/"))
          open.push_back(include.path.substr(7));
        else
          included.insert(include.path);
      }
    }
    const auto is_included = [&](const std::string& header) { return included.contains(header); };
    std::ifstream in(top / file);
    const std::string code = code_of(std::string(std::istreambuf_iterator<char>(in), {}));
    for (const std::string& name : names_in(code, "std::")) {
      const std::set<std::string> headers = headers_of(name);
      if (headers.empty())
        faults.push_back(file + ": std::" + name + " is not in the table of tests/layering/standard_names.hpp: add it");
      else if (std::ranges::none_of(headers, is_included))
        faults.push_back(file + ": std::" + name + " needs <" + *headers.begin() + ">");
    }
    for (const auto& [scope, header] :
         {std::pair("nlohmann::", "nlohmann/json.hpp"), std::pair("fmt::", "fmt/format.h")})
      if (!names_in(code, scope).empty() && !is_included(header))
        faults.push_back(file + ": " + scope + " needs <" + header + ">");
  }
  return faults;
}

}  // namespace layering
