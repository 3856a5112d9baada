//! Reads the text of a formula into trees, with winnow: tokens are its characters, precedence is R's.

use winnow::ascii::{digit1, multispace0};
use winnow::combinator::{
    Infix, Prefix, alt, cut_err, delimited, eof, expression, fail, not, opt, peek, preceded, repeat, separated,
    terminated,
};
use winnow::error::{ContextError, ErrMode, ModalResult, StrContext, StrContextValue};
use winnow::stream::{Location, Stream};
use winnow::token::{any, none_of, one_of, take_while};
use winnow::{LocatingSlice, Parser};

use super::deparse::is_name_character;
use super::{Argument, Comparison, Expression, Node, Operator, Place, SIGN_POWER};
use crate::error::FormulaError;

/// The most bytes a formula may have, the most parentheses inside one another, and the most operators other than those
/// of the outermost sum.
const LONGEST: usize = 50_000;
const DEEPEST: usize = 20;
const MOST: usize = 300;

/// The two sides of a formula's `~`.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) left: Option<Expression>,
    pub(crate) right: Expression,
}

type Input<'a> = LocatingSlice<&'a str>;

/// Reads `text` as `left ~ right` or `~ right`.
pub(crate) fn parse(text: &str) -> Result<Sides, FormulaError> {
    bounded(text)?;
    let left = alt((peek(token("~")).value(None), cut_err(operators).map(Some)));
    let right = preceded(token("~").context(expected("`~`")), cut_err(operators));
    let sides = (left, right).map(|(left, right)| Sides { left, right });
    let end = preceded(multispace0, eof)
        .context(expected("an operator, or the end of the formula; a name with spaces stands in backquotes"));
    terminated(sides, cut_err(end)).parse(LocatingSlice::new(text)).map_err(|error| {
        let start = error.offset() + text.get(error.offset()..).map_or(0, |rest| rest.len() - rest.trim_start().len());
        let expected: Vec<String> = error.inner().context().filter_map(wanted).collect();
        let of_several = ["bf(", "brmsformula("].iter().any(|call| text.trim_start().starts_with(call));
        let expected = match expected.first() {
            _ if of_several => {
                "one formula; that of a parameter stands apart (of a command `--parameter 'sigma ~ x'`)".into()
            }
            Some(expected) => expected.clone(),
            None => OPERAND.into(),
        };
        let found = found(text.get(start..).unwrap_or_default());
        let end = start + found.len();
        let found = if found.is_empty() { "the end of the formula".into() } else { format!("`{found}`") };
        FormulaError::Syntax { place: Place::new(text, &(start..end)), found, expected }
    })
}

const OPERAND: &str = "a column, a number, a function or `(`";

fn expected(what: &'static str) -> StrContext {
    StrContext::Expected(StrContextValue::Description(what))
}

fn wanted(context: &StrContext) -> Option<String> {
    if let StrContext::Expected(StrContextValue::Description(what)) = context { Some((*what).into()) } else { None }
}

/// The word or the sign that `rest` begins with.
fn found(rest: &str) -> String {
    let word: String = rest.chars().take_while(|c| is_name_character(*c)).collect();
    if word.is_empty() { rest.chars().take(1).collect() } else { word }
}

/// Refuses what would need a deeper stack than a thread has; a sum of many terms needs none.
fn bounded(text: &str) -> Result<(), FormulaError> {
    let (mut deep, mut signs, mut operators) = (0_usize, 0, 0);
    for c in text.chars() {
        match c {
            '(' => deep += 1,
            ')' => deep = deep.saturating_sub(1),
            _ => {}
        }
        let sign = c == '+' || c == '-';
        signs = if sign || c == '^' {
            signs + 1
        } else if c.is_whitespace() {
            signs
        } else {
            0
        };
        operators += usize::from("*/:%^|".contains(c) || sign && deep > 0);
        if deep > DEEPEST || signs > DEEPEST || operators > MOST || text.len() > LONGEST {
            return Err(FormulaError::TooLong { bytes: text.len(), longest: LONGEST, deepest: DEEPEST, most: MOST });
        }
    }
    Ok(())
}

fn token<'a>(word: &'static str) -> impl Parser<Input<'a>, &'a str, ErrMode<ContextError>> {
    preceded(multispace0, word)
}

fn operators(input: &mut Input<'_>) -> ModalResult<Expression> {
    expression(operand).prefix(sign).infix(infix).parse_next(input)
}

fn sign<'a>(input: &mut Input<'a>) -> ModalResult<Prefix<Input<'a>, Expression, ErrMode<ContextError>>> {
    preceded(multispace0, alt(("-".value(Prefix(SIGN_POWER, minus as Fold<'a>)), "+".value(Prefix(SIGN_POWER, plus)))))
        .context(expected(OPERAND))
        .parse_next(input)
}

type Fold<'a> = fn(&mut Input<'a>, Expression) -> Result<Expression, ErrMode<ContextError>>;
type Join<'a> = fn(&mut Input<'a>, Expression, Expression) -> Result<Expression, ErrMode<ContextError>>;

fn minus(_: &mut Input<'_>, operand: Expression) -> ModalResult<Expression> {
    Ok(signed(Operator::Minus, operand))
}

fn plus(_: &mut Input<'_>, operand: Expression) -> ModalResult<Expression> {
    Ok(signed(Operator::Plus, operand))
}

fn signed(operator: Operator, operand: Expression) -> Expression {
    let span = operand.span.start.saturating_sub(1)..operand.span.end;
    Expression { node: Node::Sign(operator, Box::new(operand)), span }
}

macro_rules! join {
    ($operator:expr) => {{
        fn join(_: &mut Input<'_>, left: Expression, right: Expression) -> ModalResult<Expression> {
            let span = left.span.start..right.span.end;
            Ok(Expression { node: Node::Pair($operator, Box::new(left), Box::new(right)), span })
        }
        ($operator, join as Join<'_>)
    }};
}

fn infix<'a>(input: &mut Input<'a>) -> ModalResult<Infix<Input<'a>, Expression, ErrMode<ContextError>>> {
    use Operator::{Bar, Colon, Compare, DoubleBar, Minus, Over, Plus, Power, Times, Within};
    let long = alt(("%in%", "||", "**", "<=", ">=", "==", "!="));
    let short = take_while(1, ['|', '+', '-', '*', '/', ':', '^', '<', '>']);
    let (operator, join): (Operator, Join<'a>) = match preceded(multispace0, alt((long, short))).parse_next(input)? {
        "%in%" => join!(Within),
        "||" => join!(DoubleBar),
        "|" => join!(Bar),
        "<" => join!(Compare(Comparison::Less)),
        "<=" => join!(Compare(Comparison::AtMost)),
        "==" => join!(Compare(Comparison::Equal)),
        "!=" => join!(Compare(Comparison::Unequal)),
        ">=" => join!(Compare(Comparison::AtLeast)),
        ">" => join!(Compare(Comparison::Greater)),
        "+" => join!(Plus),
        "-" => join!(Minus),
        "*" => join!(Times),
        "/" => join!(Over),
        ":" => join!(Colon),
        _ => join!(Power),
    };
    let power = operator.power();
    Ok(match operator {
        Compare(_) => Infix::Neither(power, join),
        Power => Infix::Right(power, join),
        _ => Infix::Left(power, join),
    })
}

fn operand(input: &mut Input<'_>) -> ModalResult<Expression> {
    multispace0.parse_next(input)?;
    let start = input.current_token_start();
    let group = delimited('(', cut_err(operators), cut_err(token(")").context(expected("an operator or `)`"))));
    let node =
        alt((group.map(|inner| Node::Group(Box::new(inner))), number.map(Node::Number), text.map(Node::Text), named))
            .parse_next(input)?;
    let span = start..input.previous_token_end();
    Ok(Expression { node, span })
}

fn number(input: &mut Input<'_>) -> ModalResult<f64> {
    let exponent = (one_of(['e', 'E']), opt(one_of(['+', '-'])), digit1);
    let digits = alt(((digit1, opt(('.', opt(digit1)))).void(), ('.', digit1).void()));
    terminated((digits, opt(exponent)).take().parse_to(), opt('L')).parse_next(input)
}

fn text(input: &mut Input<'_>) -> ModalResult<String> {
    let between = |quote: char| {
        let content = repeat(0.., none_of(quote)).fold(String::new, |mut text, c: char| {
            text.push(c);
            text
        });
        delimited(quote, content, cut_err(quote.context(expected("the closing quote"))))
    };
    alt((between('"'), between('\''))).parse_next(input)
}

/// A column, or a call.
fn named(input: &mut Input<'_>) -> ModalResult<Node> {
    let start = input.checkpoint();
    if any.parse_next(input)? == '`' {
        let name = take_while(1.., |c| c != '`').context(expected("the name of a column between backquotes"));
        let name = cut_err(terminated(name, '`'.context(expected("the closing backquote")))).parse_next(input)?;
        return Ok(Node::Name(name.into()));
    }
    input.reset(&start);
    let name: &str = take_while(1.., is_name_character).parse_next(input)?;
    if name.starts_with(|c: char| c.is_ascii_digit() || c == '_') {
        input.reset(&start);
        return fail.parse_next(input);
    }
    let none = peek(token(")")).map(|_| Vec::new());
    let list = alt((none, separated(1.., cut_err(argument), token(","))));
    let close = token(")").context(expected("an operator, `,` or `)`"));
    let arguments: Option<Vec<Argument>> = opt(delimited(token("("), list, cut_err(close))).parse_next(input)?;
    Ok(match arguments {
        Some(arguments) => Node::Call { function: name.into(), arguments },
        None => Node::Name(name.into()),
    })
}

fn argument(input: &mut Input<'_>) -> ModalResult<Argument> {
    let equals = (token("="), not("="));
    let name = terminated(preceded(multispace0, take_while(1.., is_name_character)), equals);
    let name: Option<&str> = opt(name).parse_next(input)?;
    Ok(Argument { name: name.map(String::from), value: operators.parse_next(input)? })
}
